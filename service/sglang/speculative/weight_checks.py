"""Whether the draft's tensors reach the parameters of its class, by name and by shape, and which renaming mends it."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from service.sglang.checks import Check, CheckCode, Finding, Outcome, concluded, fail, skipped, warn
from service.sglang.model_config import ModelConfig
from service.sglang.model_files import ModelFiles
from service.sglang.releases import KNOWN_RELEASES
from service.sglang.speculative import mtp
from service.sglang.speculative.classes import Family, is_registered
from service.sglang.speculative.eagle import eagle_loader
from service.sglang.speculative.eagle3 import eagle3_loader
from service.sglang.speculative.eagle3_mla import eagle3_mla_loader
from service.sglang.speculative.identity import too_many_layers
from service.sglang.speculative.pair import Pair
from service.sglang.speculative.renames import Renaming, find_renaming, releases_that_load
from service.sglang.speculative.weights import Effect, Loader, Match, Need, WrongShape, match
from service.sglang.versions import Version

SHOWN_NAMES = 40
"""So many names are in the facts of a check, and the first few of them in its text."""
_TOLD_NAMES = 4
_KEYS, _SHAPES = CheckCode.DRAFT_WEIGHT_KEYS, CheckCode.DRAFT_WEIGHT_SHAPES
_EFFECTS: Mapping[Effect, str] = {
    Effect.ERROR: "the engine ends with an error",
    Effect.CUT: "the surplus is cut off without a word",
    Effect.PADDED: "zeros are put in without a word",
}


def check_weights(pair: Pair) -> tuple[Check, Check]:
    """Return the judgement of names and of shapes."""
    why = _why_not(pair)
    if why:
        return skipped(_KEYS, why), skipped(_SHAPES, why)
    if pair.family is Family.MTP:
        return _check_layer(pair)
    loader = loader_for(pair.draft_config, pair.class_name or "", pair.release)
    if loader is None:
        why = f"how SGLang loads {pair.class_name} is not known in detail: its weights were not compared"
        return skipped(_KEYS, why), skipped(_SHAPES, why)
    found = match(pair.draft.loaded_tensors, loader)
    return _check_keys(pair, found), _check_shapes(pair, found)


def loader_for(config: ModelConfig, class_name: str, release: Version) -> Loader | None:
    """Return how a release loads a class, None for a class whose loader was not read or that it does not have."""
    make: Callable[[], Loader] | None = {
        "LlamaForCausalLMEagle3": lambda: eagle3_loader(config, release),
        "Eagle3DeepseekV2ForCausalLM": lambda: eagle3_mla_loader(config, release),
        "LlamaForCausalLMEagle": lambda: eagle_loader(config, release, class_name=class_name),
        "Qwen2ForCausalLMEagle": lambda: eagle_loader(config, release, class_name=class_name),
    }.get(class_name)
    return make() if make and is_registered(class_name, release) else None


def why_not_compared(draft: ModelFiles, config: ModelConfig, family: Family) -> str | None:
    """Return why the names and shapes of a draft cannot be compared, None when they can."""
    if not draft.weights and draft.pickles:
        shown = ", ".join(draft.pickles[:_TOLD_NAMES])
        text = f"the weights are in a pickle ({shown}), whose names cannot be listed without running it: NOT CHECKED"
        return f"{text}. Convert it once, in a sandbox, with a loader that takes weights only"
    if not draft.loaded_files or any(file.problem for file in draft.loaded_files):
        return "the weight files are not all there or not sound: see draft_weight_files"
    if not draft.has_all_tensors and family is not Family.MTP:
        return "the draft has too many tensors to list them all"
    if config.quantization is not None and family is not Family.MTP:
        return f"the draft is quantised ({config.quantization}): its packed weights are not compared"
    return None


def _why_not(pair: Pair) -> str | None:
    if pair.arguments.text("speculative-draft-load-format") == "dummy":
        return "with --speculative-draft-load-format dummy the weights are random on purpose"
    return why_not_compared(pair.draft, pair.draft_config, pair.family)


def _check_keys(pair: Pair, found: Match) -> Check:
    tensors = pair.draft.loaded_tensors
    is_refused = too_many_layers(pair.draft_config, pair.class_name, pair.release) is not None
    renaming = find_renaming(found, tensors) if found.required_missing and not is_refused else None
    facts = _key_facts(pair, found, renaming)
    findings = list(_key_findings(pair, found, renaming))
    harmless = len(found.unexpected) - len(found.lost)
    otherwise = f"all {len(found.matched)} tensors that {found.loader.class_name} takes are there"
    if harmless:
        otherwise += f"; {harmless} more are ignored, as they should be"
    return concluded(_KEYS, findings, otherwise=otherwise, facts=facts)


def _key_findings(pair: Pair, found: Match, renaming: Renaming | None) -> Iterator[Finding]:
    release, lost, missing = pair.release, found.lost, found.required_missing
    if missing:
        left = ", ".join(dict.fromkeys(item.left.value for item in missing))
        text = (
            f"{len(missing)} parameters of {found.loader.class_name} get nothing in SGLang {release} and keep {left}: "
        )
        text += _told([item.name for item in missing])
        if lost:
            text += f"; {len(lost)} tensors are dropped without a word: {_told([item.name for item in lost])}"
        yield fail(text, _remedy(pair, renaming))
    elif lost:
        reasons = dict.fromkeys(f"{item.name} ({item.why})" for item in lost)
        yield warn(f"{len(lost)} tensors are dropped without a word in SGLang {release}: {_told(list(reasons))}")
    tolerated = [item for item in found.missing if item.need is Need.TOLERATED]
    if tolerated:
        names = _told([item.name for item in tolerated])
        yield warn(f"{names} is not in the files and keeps {tolerated[0].left.value}")
    if found.overwritten:
        text = f"{len(found.overwritten)} tensors go where another one goes: {_told(list(found.overwritten))}"
        yield warn(f"{text}; which of them stays depends on the order of the files", "keep one file with each tensor")
    layers = [item.name for item in missing if item.name.endswith(".hidden_norm.weight") and ".0." not in item.name]
    if layers:
        text = (
            "later layers have no hidden_norm, so they are ordinary decoder layers, which SGLang would compute wrongly"
        )
        yield Finding(Outcome.FAIL, text, "serve this draft elsewhere, or train one with a single layer")


def _remedy(pair: Pair, renaming: Renaming | None) -> str:
    """Return what mends missing weights: a renaming, another release, or a new export."""
    ways = []
    if renaming:
        rest = f", which leaves {_told(list(renaming.still_missing))} without weights" if renaming.still_missing else ""
        ways.append(f"rename with `vigil draft-rename`: {', '.join(renaming.patterns)}{rest}")
    loaders = [loader_for(pair.draft_config, pair.class_name or "", release) for release in KNOWN_RELEASES]
    fitting = releases_that_load(pair.draft.loaded_tensors, [loader for loader in loaders if loader])
    if fitting:
        ways.append(f"use SGLang {fitting[0].release} or later, which takes these names")
    return ", or ".join(ways) or "export the draft again: the weights are not in these files"


def _key_facts(pair: Pair, found: Match, renaming: Renaming | None) -> dict[str, object]:
    return {
        "draft_class": found.loader.class_name,
        "judged_as": str(pair.release),
        "matched_count": len(found.matched),
        "unexpected_count": len(found.unexpected),
        "unexpected": [
            {"name": item.name, "why": item.why, "is_harmless": item.is_harmless}
            for item in found.unexpected[:SHOWN_NAMES]
        ],
        "missing_count": len(found.missing),
        "missing": [
            {"name": item.name, "need": item.need.value, "keeps": item.left.value, "shape": list(item.shape)}
            for item in found.missing[:SHOWN_NAMES]
        ],
        "rename": dict(renaming.names) if renaming else None,
        "rename_patterns": list(renaming.patterns) if renaming else None,
        "rename_still_missing": list(renaming.still_missing) if renaming else None,
    }


def _check_shapes(pair: Pair, found: Match) -> Check:
    facts = {
        "wrong": [
            {"name": item.name, "shape": list(item.shape), "wanted": list(item.wanted), "effect": item.effect.value}
            for item in found.wrong_shapes[:SHOWN_NAMES]
        ]
    }
    otherwise = f"the shapes of all {len(found.matched)} tensors are those that the configuration asks for"
    return concluded(_SHAPES, _shape_findings(pair, found.wrong_shapes), otherwise=otherwise, facts=facts)


def _shape_findings(pair: Pair, wrong: Sequence[WrongShape]) -> Iterator[Finding]:
    for effect, what in _EFFECTS.items():
        items = [item for item in wrong if item.effect is effect]
        if not items:
            continue
        told = _told([f"{item.name} is {list(item.shape)}, not {_shape(item.wanted)}" for item in items])
        remedy = "correct the draft's config.json, or take the weights that belong to it"
        text = f"{told}: in SGLang {pair.release} {what}"
        yield fail(text, remedy) if effect is Effect.ERROR else warn(text, remedy)


def _check_layer(pair: Pair) -> tuple[Check, Check]:
    """Judge a draft layer that comes with its target."""
    name = pair.class_name or ""
    scheme = mtp.SCHEMES.get(name)
    if scheme is None:
        why = f"the draft layer of {name} is not known in detail: its weights were not compared"
        return skipped(_KEYS, why), skipped(_SHAPES, why)
    layer = mtp.find_layer(pair.layer_tensors, pair.draft_config, scheme)
    facts = {"draft_class": name, "prefix": layer.prefix, "matched_count": len(layer.found)}
    findings = []
    if not layer.found:
        text = f"no tensor begins with {layer.prefix}: the draft layer of {name} is not in these files"
        remedy = "take a checkpoint that has the draft layer (repackaged ones often leave it out), or drop speculation"
        findings.append(fail(f"{text}, and SGLang says nothing of that", remedy))
    elif layer.missing:
        text = f"the draft layer {layer.prefix} is not whole: {_told(list(layer.missing))} missing"
        findings.append(fail(text, "take a checkpoint that has the whole layer, or drop speculation"))
    otherwise = f"the draft layer is there: {len(layer.found)} tensors under {layer.prefix}"
    keys = concluded(
        _KEYS, findings, otherwise=otherwise, facts={**facts, "missing": list(layer.missing[:SHOWN_NAMES])}
    )
    wrong = [WrongShape(tensor.name, tensor.shape, wanted, Effect.ERROR) for tensor, wanted in layer.wrong_shapes]
    shapes = concluded(
        _SHAPES, _shape_findings(pair, wrong), otherwise="what joins it to the target has the right shape"
    )
    return keys, shapes


def _told(names: Sequence[str]) -> str:
    more = len(names) - _TOLD_NAMES
    return ", ".join(names[:_TOLD_NAMES]) + (f" and {more} more" if more > 0 else "")


def _shape(wanted: Sequence[int | None]) -> str:
    return "[" + ", ".join("?" if extent is None else str(extent) for extent in wanted) + "]"
