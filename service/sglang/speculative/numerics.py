"""Whether the draft computes as it was trained to: flags of the configuration, types, quantization, rope."""

from collections.abc import Iterator, Mapping

from service.sglang.checks import Check, CheckCode, Finding, concluded, fail, warn
from service.sglang.model_config import ModelConfig
from service.sglang.model_files import PACKED_TYPES, QUANTIZATION_FILE
from service.sglang.releases import V0_5_2, V0_5_6, V0_5_10, V0_5_16, V0_5_23
from service.sglang.speculative.classes import Family
from service.sglang.speculative.mtp import SCHEMES, find_layer
from service.sglang.speculative.pair import Pair

_UNREAD_FLAGS: Mapping[str, tuple[object, ...]] = {
    "use_input_layernorm_in_first_layer": (True,),
    "use_last_layernorm": (True,),
    "use_mtp_layernorm": (False,),
    "next_layer_regular": (True,),
    "parallel_draft_step": (1, None),
}
"""Flags of one trainer that no release reads, with the values that mean what the engine does (facts: drafts §4.3)."""
_DEFAULT_DTYPE = "float32"
_EXCLUSIONS = ("ignore", "exclude_modules", "modules_to_not_convert", "exclude_layers", "exclude", "ignored_layers")


def check_flags(pair: Pair) -> Check:
    """Judge flags that change what the draft computes and that the release does not know."""
    findings = list(_flags(pair)) if pair.is_eagle3 else []
    otherwise = "no flag of the draft's config.json is unknown to the release"
    return concluded(CheckCode.DRAFT_FLAGS, findings, otherwise=otherwise)


def check_dtype(pair: Pair) -> Check:
    """Judge whether draft and target compute in the same type: mixed ones fail in graph capture (facts: drafts §5)."""
    target, draft = (_computing_type(config) for config in (pair.target_config, pair.draft_config))
    given = pair.arguments.text("dtype")
    facts = {"target": target, "draft": draft, "argument": given}
    findings = []
    if given in {None, "auto"} and target != draft and not pair.is_inside_target:
        text = f"the draft computes in {draft}, the target in {target}: graph capture may fail (mat1 and mat2 must have"
        findings.append(warn(f"{text} the same dtype)", f"give --dtype {target}"))
    return concluded(CheckCode.DRAFT_DTYPE, findings, otherwise=f"both compute in {given or target}", facts=facts)


def check_quantization(pair: Pair) -> Check:
    """Judge what the target's quantization means for the draft, and whether the draft's weights are what it says."""
    arguments = pair.arguments
    facts = {
        "target": pair.target_config.quantization,
        "draft": pair.draft_config.quantization,
        "argument": arguments.text("quantization"),
        "draft_argument": arguments.text("speculative-draft-model-quantization"),
        "draft_types": sorted(pair.draft.bytes_by_dtype) if not pair.is_inside_target else None,
    }
    findings = [*_inherited(pair), *_own_types(pair), *_plain_layer(pair)]
    otherwise = f"the draft's quantization: {pair.draft_config.quantization or 'none'}"
    return concluded(CheckCode.DRAFT_QUANTIZATION, findings, otherwise=otherwise, facts=facts)


def check_rope(pair: Pair) -> Check:
    """Judge whether the draft says one thing about its rope; that it differs from the target's is usual."""
    config = pair.draft_config.text
    parameters = config.section("rope_parameters")
    new = parameters.number("rope_theta") if parameters else None
    old = config.number("rope_theta")
    facts = {"rope_parameters_theta": new, "rope_theta": old}
    findings = []
    if new is not None and old is not None and new != old:
        read = "rope_parameters" if pair.release >= V0_5_10 else "rope_theta"
        text = f"the draft's config.json says rope_theta {old:g} and, in rope_parameters, {new:g}"
        findings.append(warn(f"{text}; SGLang {pair.release} reads {read}", "make both what it was trained with"))
    shown = new if new is not None else old
    otherwise = f"rope_theta is {shown:g}" if shown is not None else "no rope_theta is stated, so it is 10000"
    return concluded(CheckCode.DRAFT_ROPE, findings, otherwise=otherwise, facts=facts)


def _flags(pair: Pair) -> Iterator[Finding]:
    config, release = pair.draft_config, pair.release
    eagle = config.section("eagle_config") or ModelConfig({})
    if config.flag("norm_before_residual") or eagle.flag("norm_before_residual"):
        yield warn("norm_before_residual: no SGLang reads it, and few draft tokens will be accepted", "retrain without")
    before = (eagle if eagle.has("norm_before_fc") else config).flag("norm_before_fc")
    if before and (release < V0_5_23 or pair.family is Family.EAGLE3_MLA):
        who = pair.class_name if pair.family is Family.EAGLE3_MLA else f"SGLang {release}"
        yield warn(
            f"norm_before_fc: {who} does not know it, and few draft tokens will be accepted", "use 0.5.23 or later"
        )
    if (config.flag("fc_norm") or config.flag("use_aux_norm")) and release < V0_5_16:
        text = f"fc_norm: SGLang {release} does not know it, and few draft tokens will be accepted"
        yield warn(text, f"use {V0_5_16} or later")
    if config.flag("norm_output") and release < V0_5_16:
        yield warn(f"norm_output: SGLang {release} does not know it", f"use {V0_5_16} or later")
    is_off = eagle.has("use_aux_hidden_state") and not eagle.flag("use_aux_hidden_state")
    if is_off and release < V0_5_10:
        text = f"use_aux_hidden_state is false, which SGLang {release} ignores: the draft gets three hidden states"
        yield fail(f"{text} and puts them through an fc without weights", f"use {V0_5_10} or later")
    for name, meant in _UNREAD_FLAGS.items():
        for section in (eagle, config):
            if section.has(name) and section.values[name] not in meant:
                value = str(section.values[name])[:20]
                yield warn(f"{name} is {value!r}, which no SGLang reads: it computes as with {meant[0]}")


def _computing_type(config: ModelConfig) -> str:
    """Return the type that `--dtype auto` gives: float32 becomes float16, in gemma bfloat16."""
    stated = config.text.dtype or config.dtype or _DEFAULT_DTYPE
    if stated != _DEFAULT_DTYPE:
        return stated
    return "bfloat16" if str(config.text.values.get("model_type")).startswith("gemma") else "float16"


def _inherited(pair: Pair) -> Iterator[Finding]:
    given, release, draft = pair.arguments.text("quantization"), pair.release, pair.draft_config.quantization
    own = pair.arguments.text("speculative-draft-model-quantization")
    if given is None or own is not None or pair.is_inside_target:
        return
    if draft is not None and draft != given.lower() and release <= V0_5_2:
        text = f"--quantization {given} applies to the draft too, whose config.json says {draft}"
        yield fail(
            f"{text}: the engine ends with a ValueError", "drop --quantization, the target's config.json decides"
        )
    elif draft is None and release >= V0_5_10:
        text = f"--quantization {given} applies to the draft too, which is not quantised"
        yield warn(text, "add --speculative-draft-model-quantization unquant")
    elif draft is None:
        text = f"--quantization {given} applies to the draft too, and SGLang {release} has no flag against that"
        yield warn(text, "drop --quantization, the target's config.json decides")


def _own_types(pair: Pair) -> Iterator[Finding]:
    """Yield contradictions between what the draft's configuration says and the types of its weights."""
    if pair.is_inside_target or not pair.draft.has_all_tensors or not pair.draft.loaded_tensors:
        return
    maps = ("d2t", "t2d")
    weights = [item for item in pair.draft.loaded_tensors if not any(part in item.name for part in maps)]
    packed = [item for item in weights if item.dtype in PACKED_TYPES]
    stated = pair.draft_config.quantization
    if packed and stated is None and QUANTIZATION_FILE not in pair.draft.sizes:
        text = f"{len(packed)} weights are quantised ({packed[0].name}: {packed[0].dtype}), config.json does not say so"
        yield fail(f"{text}: raw numbers would be taken without their scales", "add the quantization_config")
    if stated is not None and weights and not packed and pair.release >= V0_5_6:
        yield warn(f"config.json says the draft is quantised ({stated}), no weight is", "remove quantization_config")
    if pair.family is Family.EAGLE3_MLA:
        latent = [item for item in packed if "kv_b_proj" in item.name and item.name.endswith("weight")]
        if latent:
            yield fail(f"{latent[0].name} is {latent[0].dtype}: {pair.class_name} takes floating point only")


def _plain_layer(pair: Pair) -> Iterator[Finding]:
    """Yield a draft layer in floating point inside a quantised target that does not except it (facts: drafts §2.6)."""
    scheme = SCHEMES.get(pair.class_name or "")
    section = pair.draft_config.section("quantization_config")
    if scheme is None or section is None or pair.draft_config.quantization == "modelopt_fp4":
        return
    layer = find_layer(pair.layer_tensors, pair.draft_config, scheme)
    excepted = [str(item) for key in _EXCLUSIONS for item in _listed(section.values.get(key))]
    marks = (layer.prefix.rstrip("."), layer.prefix.removeprefix("model.").rstrip("."), "mtp", "nextn", "eh_proj")
    if layer.found and layer.is_plain and not any(mark in item for item in excepted for mark in marks):
        text = f"the draft layer ({layer.prefix}*) is not quantised, the target is, and its config.json excepts no such"
        yield warn(
            f"{text} layer: loading may fail or go wrong", "use the layer of the same quantization, or except it"
        )


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
