"""Whether algorithm, draft and release go together: the class of the draft and what it demands."""

from collections.abc import Iterator

from service.sglang.architectures import architecture_since
from service.sglang.checks import Check, CheckCode, Finding, concluded, fail, skipped, warn
from service.sglang.speculative import eagle3, mtp
from service.sglang.speculative.arguments import EAGLE_FAMILY
from service.sglang.speculative.classes import Family, is_registered
from service.sglang.speculative.pair import Pair

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
    yield from _demands(pair)


def _demands(pair: Pair) -> Iterator[Finding]:
    """Yield what the constructor of the class would refuse."""
    config, release = pair.draft_config, pair.release
    layers = config.whole("num_hidden_layers")
    takes_one = pair.family is Family.EAGLE3_MLA or (
        pair.family is Family.EAGLE3 and release < eagle3.MANY_LAYERS_SINCE
    )
    if takes_one and layers != 1:
        shown = "32 by default, since config.json has no num_hidden_layers" if layers is None else str(layers)
        remedy = "add num_hidden_layers: 1" if layers is None else None
        if layers and pair.family is Family.EAGLE3:
            remedy = f"upgrade to {eagle3.MANY_LAYERS_SINCE} or later"
        yield fail(f"{pair.class_name} takes exactly one layer, the draft has {shown}", remedy)
    elif pair.family is Family.EAGLE3 and layers is None:
        yield fail("the draft's config.json has no num_hidden_layers: transformers takes 32", "add num_hidden_layers")
    if pair.family is Family.EAGLE3_MLA and config.whole("q_lora_rank") is None:
        yield fail(f"{pair.class_name} needs q_lora_rank in the draft's config.json", "add it")
    scheme = mtp.SCHEMES.get(pair.class_name or "")
    if scheme is not None and scheme.needs_layer_count:
        count = config.text.values.get("num_nextn_predict_layers", config.values.get("num_nextn_predict_layers"))
        if count is None:
            yield fail("config.json has no num_nextn_predict_layers: the engine ends with a ValueError", "add it: 1")
        elif count != 1:
            yield fail(f"num_nextn_predict_layers is {count}; {pair.class_name} takes exactly one", "set it to 1")
