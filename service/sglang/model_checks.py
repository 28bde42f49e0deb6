"""What can be known of a model before a start: its files, class, quantization, split, context length and weight."""

from collections.abc import Iterator, Mapping, Sequence

from service.sglang.architectures import architecture_since, architectures
from service.sglang.arguments import ArgumentValue
from service.sglang.checks import Check, CheckCode, Finding, concluded, fail, skipped, warn
from service.sglang.model_config import ModelConfig
from service.sglang.model_files import PACKED_TYPES, QUANTIZATION_FILE, ModelFiles
from service.sglang.releases import V0_4_9, KnownRelease, known_release
from service.sglang.serving_arguments import (
    LONGER_CONTEXT_VARIABLE,
    ServingArguments,
    allows_longer_context,
    serving_arguments,
)
from service.sglang.tensor_parallel import split_findings
from service.sglang.versions import Version
from service.sglang.weight_files import check_config, check_path, check_weight_files

ROOM_SHARE = 0.9
"""How much of a GPU weights and key-value cache get together when nothing is said; the engine works it out itself."""
_COMPATIBLE: Mapping[str, frozenset[str]] = {
    "modelopt_fp8": frozenset({"modelopt"}),
    "modelopt_fp4": frozenset({"modelopt", "fp8"}),
    "modelopt_mixed": frozenset({"modelopt"}),
    "nvfp4_online": frozenset({"fp8", "modelopt_fp8"}),
    "petit_nvfp4": frozenset({"modelopt"}),
    "w8a8_int8": frozenset({"compressed-tensors", "compressed_tensors"}),
    "w8a8_fp8": frozenset({"compressed-tensors", "compressed_tensors"}),
}
"""Arguments that may stand against another method of the configuration (`_verify_quantization` of the releases)."""
_MIB = 2**20


def check_model(
    model: ModelFiles,
    arguments: Mapping[str, ArgumentValue],
    *,
    engine_version: str | None,
    gpu_free_mib: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> tuple[Check, ...]:
    """Return the checks of a model: its path, config.json, weight files, and whether the engine can serve it so.

    `gpu_free_mib` is the free memory of each GPU that the launch will get; empty where there is none. What cannot be
    judged is `skipped` with the reason. A version that was not read is judged by its nearest release, and says so.
    """
    known, serving = known_release(engine_version), serving_arguments(arguments)
    load_format = serving.text("load-format")
    checks = [
        check_path(CheckCode.MODEL_PATH, model, subject="the model"),
        check_config(CheckCode.MODEL_CONFIG, model, subject="the model"),
        check_weight_files(CheckCode.MODEL_WEIGHT_FILES, model, known.release, load_format=load_format),
    ]
    if model.config is None:
        return tuple(checks)
    config = model.config
    return (
        *checks,
        _architecture(config, known),
        _quantization(model, config, serving),
        _tensor_parallel(config, serving, gpu_free_mib),
        _context_length(config, serving, environment or {}, known.release),
        _weight_memory(model, serving, gpu_free_mib),
    )


def _architecture(config: ModelConfig, known: KnownRelease) -> Check:
    names, release = config.architectures, known.release
    registered = architectures(release)
    facts = {"architectures": list(names), "judged_as": str(release), "note": known.note}
    findings: list[Finding] = []
    if not names:
        findings.append(fail("config.json names no architectures", 'add "architectures" to it'))
    elif not registered.intersection(names):
        since = architecture_since(names[0])
        text = f"{names[0]} is not among the classes of SGLang {release}"
        text += f"; it came with {since}" if since else ""
        text += f" ({known.note})" if known.note else ""
        remedy = (
            f"upgrade to {since} or later" if since else "ask the engine itself (its preflight) whether it serves it"
        )
        findings.append(warn(f"{text}. Without a class of transformers in its place the start fails", remedy))
    otherwise = f"SGLang {release} has a class {names[0] if names else ''}"
    return concluded(CheckCode.MODEL_ARCHITECTURE, findings, otherwise=otherwise, facts=facts)


def _quantization(model: ModelFiles, config: ModelConfig, serving: ServingArguments) -> Check:
    stated, given = config.quantization, serving.text("quantization")
    packed = sorted(PACKED_TYPES.intersection(model.bytes_by_dtype))
    facts = {"stated": stated, "argument": given, "types": sorted(model.bytes_by_dtype)}
    findings: list[Finding] = []
    if stated and given and not _agree(given.lower(), stated):
        text = f"--quantization {given} against config.json's {stated}: the engine may end with a ValueError"
        findings.append(warn(text, "drop --quantization, config.json decides"))
    if packed and not stated and not given and QUANTIZATION_FILE not in model.sizes:
        text = f"weights of type {', '.join(packed)} are quantised, and config.json does not say how"
        findings.append(warn(text, "add the quantization_config, or give --quantization"))
    if stated and model.weights and not packed and all(file.problem is None for file in model.weights):
        text = f"config.json says the model is quantised ({stated}), no weight is"
        findings.append(warn(text, "take the weights that belong to this config.json"))
    otherwise = f"quantization: {given or stated or 'none'}"
    return concluded(CheckCode.MODEL_QUANTIZATION, findings, otherwise=otherwise, facts=facts)


def _agree(given: str, stated: str) -> bool:
    return given == stated or given.startswith(f"{stated}_") or stated in _COMPATIBLE.get(given, ())


def _tensor_parallel(config: ModelConfig, serving: ServingArguments, gpu_free_mib: Sequence[int]) -> Check:
    tp_size, pp_size = serving.tp_size, serving.pp_size
    replicas = 1 if serving.has_dp_attention else serving.whole("dp-size") or 1
    needed = tp_size * pp_size * replicas
    findings = list(split_findings(config.text, serving, subject="the model"))
    if gpu_free_mib and needed > len(gpu_free_mib):
        text = f"tp {tp_size}, pp {pp_size} and dp {replicas} need {needed} GPUs, {len(gpu_free_mib)} are given"
        findings.append(fail(text, "give the server more GPUs, or lower these sizes"))
    facts = {
        "tp_size": tp_size,
        "attention_tp_size": serving.attention_tp_size,
        "heads": config.text.whole("num_attention_heads"),
        "kv_heads": config.text.kv_heads,
        "gpus_needed": needed,
    }
    otherwise = f"the model's heads divide by {serving.attention_tp_size}"
    return concluded(CheckCode.MODEL_TENSOR_PARALLEL, findings, otherwise=otherwise, facts=facts)


def _context_length(
    config: ModelConfig, serving: ServingArguments, environment: Mapping[str, str], release: Version
) -> Check:
    given, derived = serving.whole("context-length"), config.text.context_length
    findings: list[Finding] = []
    if given is not None and given > derived:
        text = f"--context-length {given} is more than the {derived} tokens that config.json gives"
        remedy = f"give --context-length {derived} or less, or set {LONGER_CONTEXT_VARIABLE}=1 in the environment"
        if allows_longer_context(environment, release):
            how = " unless the variable says no" if release <= V0_4_9 else ""
            findings.append(
                warn(f"{text}: allowed{how}, answers beyond may be wrong", f"give --context-length {derived}")
            )
        else:
            findings.append(fail(f"{text}: the engine refuses to start", remedy))
    facts = {"given_tokens": given, "derived_tokens": derived}
    otherwise = f"{given or derived} tokens of context, config.json gives {derived}"
    return concluded(CheckCode.MODEL_CONTEXT_LENGTH, findings, otherwise=otherwise, facts=facts)


def _weight_memory(model: ModelFiles, serving: ServingArguments, gpu_free_mib: Sequence[int]) -> Check:
    """Judge the weights against the free memory: all bytes, dealt evenly over the GPUs of one replica.

    An estimate: what is repeated on each GPU is not counted, nor is what a quantization at load time saves.
    """
    code = CheckCode.MODEL_WEIGHT_MEMORY
    if not gpu_free_mib or not model.weight_bytes:
        return skipped(code, "no GPU memory is given" if model.weight_bytes else "the size of the weights is not known")
    parts = serving.tp_size * serving.pp_size
    total_mib, free_mib = model.weight_bytes // _MIB, min(gpu_free_mib)
    per_gpu_mib = total_mib // parts
    share = _share(serving)
    room_mib = int(free_mib * share)
    sum_shown = (
        f"{total_mib} MiB / {parts} GPUs = {per_gpu_mib} MiB each; free {free_mib} MiB x {share} = {room_mib} MiB"
    )
    facts = {"weights_mib": total_mib, "per_gpu_mib": per_gpu_mib, "free_mib": free_mib, "room_mib": room_mib}
    return concluded(code, _memory_findings(per_gpu_mib, room_mib, sum_shown), otherwise=sum_shown, facts=facts)


def _memory_findings(per_gpu_mib: int, room_mib: int, sum_shown: str) -> Iterator[Finding]:
    if per_gpu_mib >= room_mib:
        remedy = "more GPUs (--tp-size), a quantised model, or GPUs with more free memory"
        yield warn(f"the weights leave no room for the key-value cache: {sum_shown}", remedy)


def _share(serving: ServingArguments) -> float:
    text = serving.text("mem-fraction-static")
    try:
        share = float(text) if text else ROOM_SHARE
    except ValueError:
        return ROOM_SHARE
    return share if 0 < share <= 1 else ROOM_SHARE
