"""The engine's own benchmark client: its command by engine version, and what its log says of its progress.

The client is run on the node with the server's own Python (facts: benchmarks §1). Read in SGLang 0.5.10.post1, 0.5.16
and 0.5.23.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.sglang.versions import Version, parse_version

MODULE_SINCE = Version(0, 5, 16)
"""The first release that was read in which `sglang.benchmark.serving` exists; `sglang.bench_serving` warns since."""
CACHE_REPORT_SINCE = Version(0, 5, 16)
GOODPUT_SINCE = Version(0, 5, 23)
FLUSH_TIMEOUT_SINCE = Version(0, 5, 23)
READY_CHECK_S = 30
FLUSH_TIMEOUT_S = 60


class Backend(StrEnum):
    """Which interface of the server the client speaks."""

    NATIVE = "sglang"
    COMPLETIONS = "sglang-oai"
    CHAT = "sglang-oai-chat"


@dataclass(frozen=True, slots=True)
class RandomIdsPrompts:
    """Prompts of random token ids with exactly these lengths; nothing is downloaded.

    They are sent as ids: as text they come to other lengths at the server (32 asked, 32 to 96 seen), while the client
    reports the lengths that it asked for.
    """

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class FilePrompts:
    """Prompts from a file on the node; `output_tokens` None takes the length from the file."""

    dataset: str
    """`custom`, `openai` or `sharegpt`: the name the client has for the file's layout."""
    path: str
    output_tokens: int | None


@dataclass(frozen=True, slots=True)
class SharedPrefixPrompts:
    """Generated prompts in groups that share a prefix."""

    groups: int
    prompts_per_group: int
    prefix_tokens: int
    question_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class ClientRun:
    """One execution of the client: one point of load, one repeat."""

    host: str
    port: int
    model_path: str
    """A directory on the node: the client reads the tokenizer from it."""
    served_model_name: str
    prompts: RandomIdsPrompts | FilePrompts | SharedPrefixPrompts
    num_prompts: int
    seed: int
    warmup_requests: int
    output_file: str
    """A file that does not exist yet: the client appends to it."""
    max_concurrency: int | None = None
    request_rate_rps: float | None = None
    """None sends as fast as `max_concurrency` lets it."""
    tokenizer_path: str | None = None
    has_flush: bool = True
    has_ignore_eos: bool = True
    goodput_ms: Mapping[str, float] = field(default_factory=dict)
    """Limits by the client's names: `ttft`, `tpot`, `e2el`."""
    tag: str | None = None

    @property
    def backend(self) -> Backend:
        """Return the interface: a file of chat messages needs the chat one."""
        is_chat = isinstance(self.prompts, FilePrompts) and self.prompts.dataset == "openai"
        return Backend.CHAT if is_chat else Backend.NATIVE


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """What is executed on the node; `left_out` says what this version of the client cannot do."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    left_out: tuple[str, ...]


CLIENT_ENVIRONMENT: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1",
    "TQDM_MININTERVAL": "1",
}
"""The client must not download, and its progress bar writes once a second. A server with an API key needs the key in
`OPENAI_API_KEY` besides; it is a secret and so not here."""


@dataclass(frozen=True, slots=True)
class ClientKey:
    """The one key that a client can send, None for a server without one."""

    value: str | None = field(default=None, repr=False)
    can_flush: bool = True
    """False when the server takes another key for flushing its cache than for requests (facts: SGLang §3.2)."""


def client_key(secret_arguments: Mapping[str, str]) -> ClientKey:
    """Return the key for a server that was started with these secret arguments."""
    key, admin_key = secret_arguments.get("api-key"), secret_arguments.get("admin-api-key")
    if key is None:
        return ClientKey(admin_key)
    return ClientKey(key, can_flush=admin_key in {None, key})


def client_module(engine_version: str | None) -> str:
    """Return the module to run; an unknown version is taken for a new one."""
    version = parse_version(engine_version)
    is_new = version is None or version >= MODULE_SINCE
    return "sglang.benchmark.serving" if is_new else "sglang.bench_serving"


def client_command(run: ClientRun, *, python: str, engine_version: str | None) -> ClientCommand:
    """Return the command of one run.

    The lengths of random prompts are fixed (`--random-range-ratio 1.0`; the client's default would halve them), the
    dataset never downloads, and the sampled numbers go to a file of their own (facts: benchmarks §3).
    """
    version = parse_version(engine_version)
    argv = [python, "-m", client_module(engine_version)]
    argv += ["--backend", run.backend, "--host", run.host, "--port", str(run.port)]
    argv += ["--model", run.model_path, "--served-model-name", run.served_model_name]
    argv += ["--tokenizer", run.tokenizer_path or run.model_path]
    argv += _prompt_arguments(run.prompts)
    argv += ["--num-prompts", str(run.num_prompts), "--seed", str(run.seed)]
    argv += _load_arguments(run)
    argv += ["--output-file", run.output_file, "--output-details"]
    if run.tag is not None:
        argv += ["--tag", run.tag]
    optional, left_out = _optional_arguments(run, version)
    return ClientCommand(tuple(argv + optional), CLIENT_ENVIRONMENT, left_out)


def _prompt_arguments(prompts: RandomIdsPrompts | FilePrompts | SharedPrefixPrompts) -> list[str]:
    match prompts:
        case RandomIdsPrompts():
            return [
                *("--dataset-name", "random-ids", "--random-range-ratio", "1.0", "--tokenize-prompt"),
                *("--random-input-len", str(prompts.input_tokens), "--random-output-len", str(prompts.output_tokens)),
            ]
        case FilePrompts():
            length = [] if prompts.output_tokens is None else ["--sharegpt-output-len", str(prompts.output_tokens)]
            return ["--dataset-name", prompts.dataset, "--dataset-path", prompts.path, *length]
        case SharedPrefixPrompts():
            return [
                *("--dataset-name", "generated-shared-prefix", "--gsp-range-ratio", "1.0"),
                *("--gsp-num-groups", str(prompts.groups), "--gsp-prompts-per-group", str(prompts.prompts_per_group)),
                *("--gsp-system-prompt-len", str(prompts.prefix_tokens)),
                *("--gsp-question-len", str(prompts.question_tokens), "--gsp-output-len", str(prompts.output_tokens)),
            ]


def _load_arguments(run: ClientRun) -> list[str]:
    rate = "inf" if run.request_rate_rps is None else repr(run.request_rate_rps)
    argv = ["--request-rate", rate, "--warmup-requests", str(run.warmup_requests)]
    argv += ["--ready-check-timeout-sec", str(READY_CHECK_S)]
    if run.max_concurrency is not None:
        argv += ["--max-concurrency", str(run.max_concurrency)]
    return argv


def _optional_arguments(run: ClientRun, version: Version | None) -> tuple[list[str], tuple[str, ...]]:
    """Return the arguments that not every run or version has, and what had to be left out."""
    argv: list[str] = []
    left_out: list[str] = []
    if not run.has_ignore_eos:
        argv.append("--disable-ignore-eos")
    if run.has_flush:
        argv.append("--flush-cache")
        if version is None or version >= FLUSH_TIMEOUT_SINCE:
            argv += ["--flush-cache-timeout", str(FLUSH_TIMEOUT_S)]
    if version is None or version >= CACHE_REPORT_SINCE:
        argv.append("--cache-report")
    else:
        left_out.append(f"the cache report: the client has it since {CACHE_REPORT_SINCE}")
    if run.goodput_ms and (version is None or version >= GOODPUT_SINCE):
        argv += ["--goodput", *(f"{name}:{limit:.15g}" for name, limit in run.goodput_ms.items())]
    elif run.goodput_ms:
        left_out.append(f"goodput: the client computes it since {GOODPUT_SINCE}")
    return argv, tuple(left_out)


class ClientStage(StrEnum):
    """How far the client has come."""

    PREPARING = "preparing"
    """It imports, waits for the server, loads the tokenizer and makes the prompts."""
    WARMING_UP = "warming_up"
    MEASURING = "measuring"
    REPORTING = "reporting"
    """It has printed its table; the result file is written last."""


@dataclass(frozen=True, slots=True)
class ClientProgress:
    """What the client's log says; `done` counts ended requests, failed ones too."""

    stage: ClientStage
    done: int = 0
    total: int | None = None
    failed: int = 0
    """Requests whose exception the client printed; answers other than 200 it does not print."""


_WARMUP = "Starting warmup with "
_MEASURE = "Starting main benchmark run"
_REPORT = " Serving Benchmark Result "
_FAILURE = "output.error="
STAGES = tuple(ClientStage)
STAGE_MARKS = (_WARMUP, _MEASURE, _REPORT)
"""The texts of its log with which the client goes from one stage to the next."""
PAUSE_BEFORE_S = 1.0
"""How long the client sleeps between the line that announces the measurement and the first request of it."""
_BAR = re.compile(r"(?:^|[\r\n])\s{0,3}\d{1,3}%\|[^\r\n|]{0,200}\|\s*(\d{1,9})/(\d{1,9}) \[")


def read_progress(log: str) -> ClientProgress:
    """Return the progress that the client's whole log tells.

    The bars of the preparation carry a description in front and are not counted; `log` may end anywhere.
    """
    place = log.find(_MEASURE)
    if place < 0:
        return ClientProgress(ClientStage.WARMING_UP if _WARMUP in log else ClientStage.PREPARING)
    measured = log[place:]
    bars = _BAR.findall(measured)
    stage = ClientStage.REPORTING if _REPORT in measured else ClientStage.MEASURING
    failed = measured.count(_FAILURE)
    if not bars:
        return ClientProgress(stage, failed=failed)
    done, total = bars[-1]
    return ClientProgress(stage, done=int(done), total=int(total), failed=failed)
