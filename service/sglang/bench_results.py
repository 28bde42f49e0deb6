"""What the engine's own benchmark client writes: one JSON object a run, and what its fields really mean.

Read in SGLang 0.5.10.post1, 0.5.16 and 0.5.23 (facts: benchmarks §3). A caller parses the line; this gives it meaning.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from service.sglang.arguments import SECRET_ARGUMENTS
from service.sglang.bench_answers import NO_TEXT, Json, TrueAnswers, percentile, true_answers
from service.sglang.bench_client import Backend

PER_REQUEST_FIELDS = frozenset(
    {
        *("input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors"),
        *("cached_tokens", "cached_tokens_details"),
    }
)
"""Present with `--output-details`: arrays with an entry a request."""
_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2e_latency"}
_STATISTICS = {"mean": "mean", "p50": "median", "std": "std", "p90": "p90", "p95": "p95", "p99": "p99", "max": "max"}


@dataclass(frozen=True, slots=True)
class ServingResult:
    """One line of the client's file. Numbers are as written, finite or None; times of distributions are in ms."""

    backend: str | None
    dataset_name: str | None
    is_trace: bool
    request_rate_rps: float | None
    """None is unlimited: the client writes the non-JSON word Infinity."""
    max_concurrency: int | None
    input_tokens_asked: float | None
    """The mean, of prompts of random lengths; None for other prompts."""
    output_tokens_asked: float | None
    duration_s: float | None
    completed: int | None
    sent: int | None
    """Known only with details: the client leaves failures out of its file."""
    failed: int | None
    errors: tuple[str, ...]
    """The distinct texts of failed requests, at most five, shortened."""
    input_tokens: int | None
    """As the client asked for them; at the server they may differ, see `input_tokens_served`."""
    input_tokens_served: int | None
    output_tokens: int | None
    output_tokens_retokenized: int | None
    distributions: Mapping[str, Mapping[str, float]]
    """`ttft`, `tpot`, `itl` and `e2e`, each by statistic; empty when no request was answered."""
    mean_concurrency: float | None
    accept_length: float | None
    """Bonus token included, of data-parallel rank 0, since the cache was last flushed."""
    goodput_rps: float | None
    slo_attainment: float | None
    slo_ms: Mapping[str, float]
    cached_tokens: int | None
    cached_device_tokens: int | None
    cached_host_tokens: int | None
    cached_storage_tokens: int | None
    server: Mapping[str, str | int | float | bool]
    """The fields of the server's arguments that identify it; the rest may hold keys and is not kept."""
    tag: str | None = None
    unread: Mapping[str, Json] = field(default_factory=dict)
    """Fields with another meaning than any of ours, or unknown ones."""

    @property
    def is_itl_retokenized(self) -> bool:
        """Tell whether the client split the gaps by its own tokenizer: with speculation on the OpenAI interfaces."""
        return bool(self.accept_length) and self.backend in {Backend.COMPLETIONS, Backend.CHAT}

    @property
    def is_itl_split(self) -> bool:
        """Tell whether the gaps are per token by the server's counts: on the native interface only."""
        return self.backend in {Backend.NATIVE, "sglang-native"}


SERVER_FIELDS = (
    *("version", "model_path", "served_model_name", "quantization", "kv_cache_dtype", "dtype"),
    *("tp_size", "dp_size", "ep_size", "pp_size", "attention_backend", "mem_fraction_static"),
    *("disable_radix_cache", "disable_cuda_graph", "disaggregation_mode", "chunked_prefill_size"),
    *("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"),
    "speculative_draft_model_path",
)
"""What of `server_info` is kept. The object also holds `api_key` and, since 0.5.23, the whole command line."""
SECRET_FIELDS = (*(name.replace("-", "_") for name in sorted(SECRET_ARGUMENTS)), "launch_command")
"""What of `server_info` must not leave the node, at whatever depth: an adopted server may have a key in its command."""
_READ = frozenset(
    {
        *("backend", "dataset_name", "request_rate", "max_concurrency", "random_input_len", "random_output_len"),
        *("random_range_ratio", "sharegpt_output_len", "duration", "completed", "total_input_tokens", "tag"),
        *("total_output_tokens", "total_output_tokens_retokenized", "concurrency", "accept_length"),
        *("request_throughput", "input_throughput", "output_throughput", "total_throughput"),
        *("goodput_slos_ms", "request_goodput", "slo_attainment", "cache_report", "server_info"),
        *(f"{prefix}_{name}_ms" for prefix in _STATISTICS.values() for name in _LATENCIES.values()),
        *PER_REQUEST_FIELDS,
    }
)


def is_serving_result(document: Mapping[str, Json]) -> bool:
    """Tell whether a JSON object is a line of this client's file; vLLM's has `model_id` and no `total_throughput`."""
    return {"backend", "completed", "total_throughput", "mean_ttft_ms"} <= document.keys()


def read_serving_result(document: Mapping[str, Json]) -> ServingResult:
    """Return what one line says.

    When nothing was answered the client writes 0 and NaN for all latencies: they are dropped. Throughputs are not read:
    they are counts over the duration, which a reader divides himself.

    Requests to which no text came are counted as failed ones, whatever the client says.
    """
    read = _as_written(document)
    answers = true_answers(document)
    return read if answers is None else _corrected(read, answers)


def _as_written(document: Mapping[str, Json]) -> ServingResult:
    completed = _whole(document.get("completed"))
    asked = _asked_lengths(document)
    sent, failed, errors = _outcomes(document, completed)
    report = _mapping(document.get("cache_report"))
    return ServingResult(
        backend=_text(document.get("backend")),
        dataset_name=_text(document.get("dataset_name")),
        is_trace=document.get("request_rate") == "trace",
        request_rate_rps=_number(document.get("request_rate")),
        max_concurrency=_whole(document.get("max_concurrency")),
        input_tokens_asked=asked[0],
        output_tokens_asked=asked[1],
        duration_s=_number(document.get("duration")),
        completed=completed,
        sent=sent,
        failed=failed,
        errors=errors,
        input_tokens=_whole(document.get("total_input_tokens")),
        input_tokens_served=_served_tokens(document, failed),
        output_tokens=_whole(document.get("total_output_tokens")),
        output_tokens_retokenized=_whole(document.get("total_output_tokens_retokenized")),
        distributions=_distributions(document) if completed else {},
        mean_concurrency=_number(document.get("concurrency")) if completed else None,
        accept_length=_number(document.get("accept_length")),
        goodput_rps=_number(document.get("request_goodput")),
        slo_attainment=_number(document.get("slo_attainment")),
        slo_ms=_numbers(_mapping(document.get("goodput_slos_ms"))),
        cached_tokens=_whole(report.get("total_cached_tokens")),
        cached_device_tokens=_whole(report.get("device_cached_tokens")),
        cached_host_tokens=_whole(report.get("host_cached_tokens")),
        cached_storage_tokens=_whole(report.get("storage_cached_tokens")),
        server=dict(_server_fields(_mapping(document.get("server_info")))),
        tag=_text(document.get("tag")),
        unread={name: value for name, value in document.items() if name not in _READ and value is not None},
    )


def _corrected(read: ServingResult, answers: TrueAnswers) -> ServingResult:
    """Return what was read without the requests that got no text; the client's goodput counts them and is dropped."""
    return replace(
        read,
        completed=answers.answered,
        failed=None if read.sent is None else read.sent - answers.answered,
        errors=(*read.errors, f"{NO_TEXT} ({answers.silent} requests)"),
        input_tokens=answers.input_tokens,
        input_tokens_served=answers.input_tokens,
        output_tokens=answers.output_tokens,
        distributions=answers.distributions,
        mean_concurrency=answers.mean_concurrency,
        goodput_rps=None,
        slo_attainment=None,
    )


def _asked_lengths(document: Mapping[str, Json]) -> tuple[float | None, float | None]:
    """Return the mean lengths asked for; the client writes those of its random dataset whatever dataset it ran."""
    if not str(document.get("dataset_name", "")).startswith("random"):
        return None, _whole(document.get("sharegpt_output_len"))
    share = _number(document.get("random_range_ratio"))
    given, answered = (_whole(document.get(f"random_{part}_len")) for part in ("input", "output"))
    return _mean_length(given, share), _mean_length(answered, share)


def _mean_length(longest: int | None, share: float | None) -> float | None:
    """Return the mean of lengths that are drawn evenly from this share of the longest one up to it."""
    if longest is None or share is None or share > 1:
        return None
    return (max(int(longest * share), 1) + longest) / 2


def _outcomes(document: Mapping[str, Json], completed: int | None) -> tuple[int | None, int | None, tuple[str, ...]]:
    """Return requests sent, failed, and what the failures said, from the details; without details (None, None, ())."""
    errors = document.get("errors")
    if not isinstance(errors, list) or completed is None or len(errors) < completed:
        return None, None, ()
    said = dict.fromkeys(_clean(error, 300) for error in errors if isinstance(error, str) and error)
    return len(errors), len(errors) - completed, tuple(said)[:5]


def _served_tokens(document: Mapping[str, Json], failed: int | None) -> int | None:
    """Return the input tokens as the server counted them; with failures the client's array mixes both counts."""
    lengths = document.get("input_lens")
    if failed != 0 or not isinstance(lengths, list):
        return None
    counts = [_whole(length) for length in lengths]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _distributions(document: Mapping[str, Json]) -> dict[str, dict[str, float]]:
    found = {name: dict(_statistics(document, label)) for name, label in _LATENCIES.items()}
    first_tokens = _answered_ttfts_ms(document)
    if first_tokens:
        for statistic, share in (("p90", 0.90), ("p95", 0.95), ("max", 1.0)):
            found["ttft"].setdefault(statistic, percentile(first_tokens, share))
    return {name: statistics for name, statistics in found.items() if statistics}


def _statistics(document: Mapping[str, Json], label: str) -> Iterator[tuple[str, float]]:
    for statistic, prefix in _STATISTICS.items():
        value = _number(document.get(f"{prefix}_{label}_ms"))
        if value is not None:
            yield statistic, value


def _answered_ttfts_ms(document: Mapping[str, Json]) -> list[float]:
    """Return the times to the first token of answered requests, sorted; older versions write fewer percentiles."""
    times, errors = document.get("ttfts"), document.get("errors")
    if not isinstance(times, list) or not isinstance(errors, list) or len(times) != len(errors):
        return []
    seconds = [_number(time) for time, error in zip(times, errors, strict=True) if not error]
    return sorted(1000 * time for time in seconds if time)


def _server_fields(server_info: Mapping[str, Json]) -> Iterator[tuple[str, str | int | float | bool]]:
    for name in SERVER_FIELDS:
        value = server_info.get(name)
        if isinstance(value, str):
            yield name, _clean(value, 4096)
        elif isinstance(value, bool | int) or _number(value) is not None:
            yield name, value  # type: ignore[misc]


def _numbers(values: Mapping[str, Json]) -> dict[str, float]:
    read = {name: _number(value) for name, value in values.items()}
    return {name: value for name, value in read.items() if value is not None}


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Json) -> str | None:
    return _clean(value, 4096) if isinstance(value, str) else None


def _clean(text: str, length: int) -> str:
    """Return a text without NUL and lone surrogates, which databases refuse; what was generated can hold both."""
    return text[:length].replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def _number(value: Json) -> float | None:
    """Return a finite number that is not negative, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1e15 else None  # noqa: PLR2004  no count or time is larger; NaN fails both


def _whole(value: Json) -> int | None:
    number = _number(value)
    return None if number is None or number != int(number) else int(number)
