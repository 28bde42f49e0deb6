"""Whether algorithm, draft and release go together: the class of the draft and what it demands."""

from collections.abc import Iterator

from service.sglang.architectures import architecture_since
from service.sglang.checks import Check, CheckCode, Finding, concluded, fail, skipped, warn
from service.sglang.model_config import ModelConfig
from service.sglang.speculative import eagle3, mtp
from service.sglang.speculative.arguments import EAGLE_FAMILY
from service.sglang.speculative.classes import Family, family_of, is_registered
from service.sglang.speculative.pair import Pair
from service.sglang.versions import Version

_SPECULATORS_REMEDY = (
    "write a flat config.json: architectures LlamaForCausalLMEagle3, the fields of transformer_layer_config lifted to "
    "the top, draft_vocab_size, the layer ids (less one) in eagle_config; only if norm_before_residual is false"
)
_EAGLE3_SIGNS = ("midlayer.", "d2t", "hidden_norm")


def check_algorithm(pair: Pair) -> Check:
    """Judge whether the algorithm fits the class of the draft."""
    code, algorithm, name = CheckCode.DRAFT_ALGORITHM, pair.algorithm, pair.class_name
    if algorithm not in EAGLE_FAMILY:
        return skipped(code, f"drafts for {algorithm} are not judged")
    facts = {"algorithm": algorithm, "draft_class": name, "family": pair.family.value}
    otherwise = f"{algorithm} with a draft of class {name}"
    return concluded(code, _algorithm_findings(pair), otherwise=otherwise, facts=facts)


def check_architecture(pair: Pair) -> Check:
    """Judge whether the release has the draft's class, and what the class demands of the configuration."""
    facts = {"architecture": pair.draft_config.architecture, "draft_class": pair.class_name}
    otherwise = f"SGLang {pair.release} has the class {pair.class_name}"
    return concluded(CheckCode.DRAFT_ARCHITECTURE, _architecture_findings(pair), otherwise=otherwise, facts=facts)


def too_many_layers(config: ModelConfig, class_name: str | None, release: Version) -> str | None:
    """Return why a release refuses a draft for its layers, whatever their names; None when it does not."""
    layers = config.whole("num_hidden_layers")
    if not _takes_one_layer(family_of(class_name), release) or layers in {None, 1}:
        return None
    return f"{class_name} takes exactly one layer, the draft has {layers}"


def _algorithm_findings(pair: Pair) -> Iterator[Finding]:
    algorithm, name = pair.algorithm, pair.class_name
    match pair.family:
        case Family.EAGLE3 | Family.EAGLE3_MLA if algorithm != "EAGLE3":
            sizes = pair.sizes
            if sizes.target_hidden == sizes.hidden:
                how = "fc is passed over without a word and the accept length is exactly 1.00"
            else:
                how = "the widths do not fit and the first forward pass fails"
            yield fail(f"{algorithm} with an EAGLE-3 draft ({name}): {how}", "use --speculative-algorithm EAGLE3")
        case Family.EAGLE if algorithm == "EAGLE3":
            text = f"EAGLE3 with a draft of {name}: the engine ends with AttributeError (hot_token_id, set_embed)"
            yield fail(text, "use --speculative-algorithm EAGLE")
        case Family.MTP if algorithm == "EAGLE3":
            text = f"EAGLE3 with {name}, a layer that came with the target, ends with an AttributeError"
            yield fail(text, "use --speculative-algorithm NEXTN, or give an EAGLE-3 draft")
        case Family.EAGLE | Family.EAGLE3 | Family.EAGLE3_MLA | Family.MTP if algorithm == "STANDALONE":
            yield warn(f"STANDALONE wants an ordinary model; {name} lives on the target's hidden states")
        case Family.MODEL if algorithm != "STANDALONE":
            yield from _ordinary_model(pair)
        case Family.UNKNOWN | Family.OTHER_DRAFT:
            yield warn(f"{name} is not known: whether it fits {algorithm} was not judged")
        case _:
            return


def _ordinary_model(pair: Pair) -> Iterator[Finding]:
    """Yield what is wrong with a class that is no draft: often a draft whose configuration names the wrong one."""
    name, algorithm = pair.class_name, pair.algorithm
    names = [tensor.name for tensor in pair.draft.loaded_tensors]
    if any(sign in tensor for tensor in names for sign in _EAGLE3_SIGNS):
        text = f"config.json says {name}, but the weights are an EAGLE-3 draft's: they would be loaded as a plain model"
        yield fail(text, 'set "architectures": ["LlamaForCausalLMEagle3"] in the draft\'s config.json')
    elif any(tensor.endswith("fc.weight") for tensor in names):
        text = f"config.json says {name}, but the weights are an EAGLE draft's: they would be loaded as a plain model"
        yield fail(text, 'set "architectures": ["LlamaForCausalLMEagle"] in the draft\'s config.json')
    elif algorithm == "EAGLE3":
        text = f"EAGLE3 with {name}, an ordinary model: AttributeError (hot_token_id, set_embed)"
        yield fail(text, "give an EAGLE-3 draft, or use STANDALONE")
    else:
        yield warn(f"{algorithm} with {name}, an ordinary model", "use STANDALONE for an ordinary draft model")


def _architecture_findings(pair: Pair) -> Iterator[Finding]:
    config, name, release = pair.draft_config, pair.class_name, pair.release
    if pair.family is Family.SPECULATORS or (name is None and config.has("speculators_model_type")):
        yield fail("the draft is in the format of the speculators library, which no SGLang loads", _SPECULATORS_REMEDY)
        return
    if name is None:
        yield fail("the draft's config.json names no architectures", 'add "architectures" to it')
        return
    if not config.has("model_type") and not config.has("auto_map"):
        yield warn("the draft's config.json has no model_type: transformers cannot tell what it is", "add model_type")
    if not is_registered(name, release):
        since = architecture_since(name)
        if since is not None and since > release:
            yield fail(f"SGLang {release} has no class {name}; it came with {since}", f"upgrade to {since} or later")
        else:
            yield warn(f"{name} is not among the classes of SGLang {release}")
    yield from _demands(config, name, release)


def _demands(config: ModelConfig, class_name: str | None, release: Version) -> Iterator[Finding]:
    """Yield what the constructor of the class would refuse."""
    family = family_of(class_name)
    layers = config.whole("num_hidden_layers")
    surplus = too_many_layers(config, class_name, release)
    if surplus is not None:
        yield fail(surplus, f"upgrade to {eagle3.MANY_LAYERS_SINCE} or later" if family is Family.EAGLE3 else None)
    elif layers is None and _takes_one_layer(family, release):
        shown = "32 by default, since config.json has no num_hidden_layers"
        yield fail(f"{class_name} takes exactly one layer, the draft has {shown}", "add num_hidden_layers: 1")
    elif family is Family.EAGLE3 and layers is None:
        yield fail("the draft's config.json has no num_hidden_layers: transformers takes 32", "add num_hidden_layers")
    if family is Family.EAGLE3_MLA and config.whole("q_lora_rank") is None:
        yield fail(f"{class_name} needs q_lora_rank in the draft's config.json", "add it")
    scheme = mtp.SCHEMES.get(class_name or "")
    if scheme is not None and scheme.needs_layer_count:
        count = config.text.values.get("num_nextn_predict_layers", config.values.get("num_nextn_predict_layers"))
        if count is None:
            yield fail("config.json has no num_nextn_predict_layers: the engine ends with a ValueError", "add it: 1")
        elif count != 1:
            yield fail(f"num_nextn_predict_layers is {count}; {class_name} takes exactly one", "set it to 1")


def _takes_one_layer(family: Family, release: Version) -> bool:
    return family is Family.EAGLE3_MLA or (family is Family.EAGLE3 and release < eagle3.MANY_LAYERS_SINCE)
