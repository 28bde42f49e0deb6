"""May two results be compared: the key that must be equal, and what differs when it is not."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from service.benchmarks.results import LoadMode, Result

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field in which two results differ."""

    field: str
    baseline: Scalar
    candidate: Scalar


def key_fields(result: Result) -> dict[str, Scalar]:
    """Return the fields that make up the comparability key (facts: benchmarks §4).

    Model, workload without its seed, load, interface, GPU model, GPUs used, limits. Not the engine's version, arguments
    or quantization: those are what comparisons are made for.
    """
    asked, load, slo = result.workload, result.load, result.slo
    return {
        "model": _model(result),
        "dataset": asked.dataset,
        "dataset_sha256": asked.dataset_sha256,
        "input_tokens_asked": asked.input_tokens_asked,
        "output_tokens_asked": asked.output_tokens_asked,
        "prefix_tokens": asked.prefix_tokens,
        "num_prompts": asked.num_prompts,
        "ignore_eos": asked.ignore_eos,
        "temperature": asked.temperature,
        "api": asked.api,
        "is_streamed": asked.is_streamed,
        "is_cache_flushed": asked.is_cache_flushed,
        "load_mode": None if load.mode is LoadMode.UNKNOWN else str(load.mode),
        "max_concurrency": load.max_concurrency,
        "request_rate_target_rps": load.request_rate_target_rps,
        "burstiness": load.burstiness,
        "gpu_model": result.host.gpu_model,
        "gpu_count_used": result.host.gpu_count_used,
        "slo_ttft_ms": slo.ttft_ms if slo else None,
        "slo_tpot_ms": slo.tpot_ms if slo else None,
        "slo_e2e_ms": slo.e2e_ms if slo else None,
    }


def comparability_key(result: Result) -> str:
    """Return the key as 32 hexadecimal digits; equal keys mean that the results may be compared."""
    text = json.dumps(key_fields(result), sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def key_differences(baseline: Result, candidate: Result) -> tuple[FieldDifference, ...]:
    """Return the key's fields in which two results differ, in the order of the key."""
    return _differences(key_fields(baseline), key_fields(candidate))


def unknown_key_fields(result: Result) -> tuple[str, ...]:
    """Return the important fields of the key that a result does not tell: that two unknowns are equal is a guess."""
    fields = key_fields(result)
    important = ("model", "dataset", "load_mode", "gpu_model", "gpu_count_used")
    return tuple(name for name in important if fields[name] is None)


def setup_differences(baseline: Result, candidate: Result) -> tuple[FieldDifference, ...]:
    """Return how engine, arguments and machine differ: the headline of every comparison."""
    return _differences(_setup(baseline), _setup(candidate))


def _model(result: Result) -> str | None:
    server = result.server
    if server.model_fingerprint:
        return f"weights {server.model_fingerprint}"
    return server.model_id or server.model_path


def _differences(baseline: Mapping[str, Scalar], candidate: Mapping[str, Scalar]) -> tuple[FieldDifference, ...]:
    names = [*baseline, *(name for name in candidate if name not in baseline)]
    return tuple(
        FieldDifference(name, baseline.get(name), candidate.get(name))
        for name in names
        if baseline.get(name) != candidate.get(name)
    )


def _setup(result: Result) -> dict[str, Scalar]:
    server, host, client = result.server, result.host, result.client
    return {
        "profile": server.profile,
        "profile_version": server.profile_version,
        "engine": server.engine,
        "engine_version": server.engine_version,
        "engine_commit": server.engine_commit,
        "environment_sha256": server.environment_sha256,
        "model_path": server.model_path,
        "quantization": server.quantization,
        "kv_cache_dtype": server.kv_cache_dtype,
        **{size: getattr(server, size) for size in ("tp", "dp", "ep", "pp")},
        **_argument_fields(server.launch_argv),
        **{f"env {name}": value for name, value in sorted(server.env_allowlisted.items())},
        **{f"speculative {name}": value for name, value in sorted(server.speculative.items())},
        "host_id": host.host_id,
        "driver_version": host.driver_version,
        "cuda_version": host.cuda_version,
        "power_limit_w": host.power_limit_w,
        "client_tool": client.tool,
        "client_version": client.tool_version,
    }


def _argument_fields(argv: tuple[str, ...]) -> dict[str, Scalar]:
    """Return the arguments of a command line by name; a bare flag is True, several values are joined."""
    fields: dict[str, Scalar] = {}
    name: str | None = None
    for token in argv:
        if token.startswith("--"):
            name, has_value, value = token.partition("=")
            fields[name] = value if has_value else True
        elif name is not None:
            known = fields[name]
            fields[name] = token if known is True else f"{known} {token}"
    return fields
