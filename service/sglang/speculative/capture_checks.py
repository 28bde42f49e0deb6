"""Whether the target hands over the hidden states that an EAGLE-3 draft was trained on (facts: drafts §3)."""

from collections.abc import Iterator

from service.sglang.checks import Check, CheckCode, Finding, concluded, fail, skipped, warn
from service.sglang.releases import V0_5_16, V0_5_23
from service.sglang.speculative.classes import Family
from service.sglang.speculative.eagle3 import DEFAULT_AUX_COUNT, layer_ids
from service.sglang.speculative.eagle3_mla import mla_aux_count
from service.sglang.speculative.pair import Pair
from service.sglang.speculative.targets import Capture, Captured, capture, capture_since, captured_layers

_KEY = "eagle_aux_hidden_state_layer_ids"


def check_target_capture(pair: Pair) -> Check:
    """Judge whether the target's class captures hidden states in this release; not knowing is a warning."""
    code = CheckCode.DRAFT_TARGET_CAPTURE
    if pair.algorithm != "EAGLE3":
        return skipped(code, f"{pair.algorithm} takes only the last hidden state, which every target has")
    if pair.is_eagle3 and not pair.sizes.uses_aux:
        return skipped(code, "the draft says use_aux_hidden_state: false, so it takes only the last hidden state")
    name = pair.target_config.architecture
    facts = {"target_class": name, "release": str(pair.release)}
    otherwise = f"{name} captures hidden states in SGLang {pair.release}"
    return concluded(code, _capture(pair, name), otherwise=otherwise, facts=facts)


def check_layer_ids(pair: Pair) -> Check:
    """Judge which layers the target will capture against the draft's `fc` and the target's depth."""
    code = CheckCode.DRAFT_LAYER_IDS
    if not pair.is_eagle3 or pair.algorithm != "EAGLE3" or not pair.sizes.uses_aux:
        return skipped(code, "the draft takes no hidden states of inner layers")
    count = pair.target_config.text.whole("num_hidden_layers")
    if count is None:
        return skipped(code, "the target's config.json does not state num_hidden_layers")
    ids = layer_ids(pair.draft_config)
    captured = captured_layers(pair.target_config.architecture, count, ids, pair.release)
    facts = {"layer_ids": ids, "captured_before_layers": captured.layers, "target_layers": count}
    shown = ", ".join(map(str, captured.layers))
    otherwise = f"the target hands over what goes into its layers {shown}"
    return concluded(code, _layer_ids(pair, ids, captured, count), otherwise=otherwise, facts=facts)


def _capture(pair: Pair, name: str | None) -> Iterator[Finding]:
    release = pair.release
    match capture(name, release):
        case Capture.NO:
            since = capture_since(name or "")
            error = "ValueError" if release >= V0_5_23 else "AttributeError"
            text = f"{name} does not capture auxiliary hidden states in SGLang {release}"
            remedy = f"upgrade to {since} or later" if since else "serve this target without EAGLE3"
            yield fail(f"{text}: {error} (set_eagle3_layers_to_capture) after the weights are loaded", remedy)
        case Capture.HALF:
            text = f"{name} has set_eagle3_layers_to_capture in SGLang {release}"
            yield warn(f"{text}, but whether its layers hand over their states is not known")
        case Capture.UNKNOWN:
            text = f"whether {name} captures auxiliary hidden states in SGLang {release} is not known"
            yield warn(f"{text}; without them the draft's fc works on the wrong input")
        case Capture.YES:
            return


def _layer_ids(pair: Pair, ids: tuple[int, ...] | None, captured: Captured, count: int) -> Iterator[Finding]:
    config = pair.draft_config
    eagle = config.section("eagle_config")
    if ids is None and eagle is not None and eagle.has(_KEY):
        yield warn(f"eagle_config.{_KEY} is no list of whole numbers, so the default layers are captured", "correct it")
    top = config.whole_list(_KEY)
    if ids is None and top is not None:
        text = f"{_KEY} stands at the top level, where the target does not look: it captures the default layers"
        yield warn(text, f"move it into eagle_config (less one, if it counts inputs of layers): {list(top)}")
    width = mla_aux_count(config) if pair.family is Family.EAGLE3_MLA else pair.sizes.aux_count
    handed = len(set(captured.layers))
    if handed != DEFAULT_AUX_COUNT and pair.release < V0_5_16:
        text = f"SGLang {pair.release} takes exactly {DEFAULT_AUX_COUNT} hidden states, these are {handed}"
        yield fail(text, f"upgrade to {V0_5_16} or later" if ids else None)
    elif handed != width:
        text = f"the target hands over {handed} hidden states, the draft's fc takes {width}"
        yield fail(f"{text}: the first forward pass fails", "make num_aux_hidden_states and the layer ids agree")
    yield from _positions(ids, captured, count)


def _positions(ids: tuple[int, ...] | None, captured: Captured, count: int) -> Iterator[Finding]:
    shown = list(ids if ids is not None else captured.layers)
    if any(layer < 0 for layer in captured.layers):
        yield fail(f"layer ids {shown} are below zero for a target of {count} layers: that state is never captured")
        return
    beyond = [layer for layer in captured.layers if layer > captured.last]
    if beyond:
        text = f"layer ids {shown} reach layer {max(beyond)}, the last that counts is {captured.last}"
        is_off_by_one = captured.adds_one and max(beyond) - 1 <= captured.last
        remedy = "subtract one from each id" if is_off_by_one else "take a draft that was trained for this target"
        yield fail(f"{text}: that state is never captured and the first forward pass fails", remedy)
        return
    if list(captured.layers) != sorted(captured.layers):
        yield warn(f"layer ids {shown} do not rise; the states come in the order of the layers", "sort them")
    if ids and captured.adds_one and ids[0] >= 2:  # noqa: PLR2004  # trainers that count outputs begin with 1
        text = (
            f"layer ids {shown} begin with {ids[0]}: they seem to count inputs of layers, the engine adds one to each"
        )
        yield warn(f"{text}, so every state would be off by one", "if they do, subtract one from each id")
