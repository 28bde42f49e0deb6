"""Whether the draft's small vocabulary is mapped to the target's: the tensor `d2t` (facts: drafts §5)."""

from collections.abc import Iterator, Sequence

from service.sglang.checks import Check, CheckCode, Finding, concluded, fail, skipped, warn
from service.sglang.model_files import Tensor, TokenMap
from service.sglang.speculative.pair import Pair

_WHOLE = frozenset({"I64", "I32", "I16", "I8", "U8", "U16", "U32", "U64"})
_EXPORT = "export the draft again with its d2t: one whole number for each draft token, target id minus draft id"


def check_token_map(pair: Pair) -> Check:
    """Judge `d2t`: needed when the draft has fewer tokens than the target, as many numbers as the draft has tokens.

    A target id is the place of a number plus the number. The engine checks neither length nor type nor values.
    """
    code = CheckCode.DRAFT_TOKEN_MAP
    if not pair.is_eagle3:
        return skipped(code, "only EAGLE-3 drafts have a vocabulary of their own")
    if not pair.draft.loaded_files or not pair.draft.has_all_tensors:
        return skipped(code, "the draft's weights could not be listed")
    maps = [tensor for tensor in pair.draft.loaded_tensors if "d2t" in tensor.name]
    size, stated = pair.sizes.draft_vocabulary, pair.draft_config.values.get("draft_vocab_size")
    vocabulary = pair.draft_config.whole("vocab_size")
    facts = {"draft_vocab_size": stated, "vocab_size": vocabulary, "d2t": [list(tensor.shape) for tensor in maps]}
    is_small = size is not None and vocabulary is not None and size < vocabulary
    otherwise = f"d2t maps {size} draft tokens" if is_small else "the draft has all tokens, so it needs no map"
    findings = [*_findings(pair, maps, is_small=is_small), *_target_mask(pair)]
    return concluded(code, findings, otherwise=otherwise, facts=facts)


def _findings(pair: Pair, maps: Sequence[Tensor], *, is_small: bool) -> Iterator[Finding]:
    size = pair.sizes.draft_vocabulary
    if not maps:
        if is_small:
            text = f"the draft has {size} tokens of its own and no d2t: its ids are taken for the target's"
            yield fail(f"{text}, and almost none is accepted", _EXPORT)
        return
    tensor = maps[-1]
    if len(tensor.shape) != 1 or tensor.dtype not in _WHOLE:
        yield fail(f"{tensor.name} is {tensor.dtype} {list(tensor.shape)}: no list of whole numbers", _EXPORT)
        return
    length = tensor.shape[0]
    if size is not None and length != size:
        is_null = pair.draft_config.values.get("draft_vocab_size") is None
        what = "the head has all tokens (draft_vocab_size is null)" if is_null else f"draft_vocab_size is {size}"
        text = f"{tensor.name} has {length} numbers, {what}: the engine does not compare them, and ids go wrong"
        yield fail(text, f"set draft_vocab_size to {length}" if is_null else _EXPORT)
    if pair.draft.d2t is not None:
        yield from _values(pair.draft.d2t, pair.target_config.text.whole("vocab_size"))


def _values(values: TokenMap, vocabulary: int | None) -> Iterator[Finding]:
    """Yield what the numbers tell: they are differences, so they never fall and lead to tokens that there are."""
    is_outside = values.lowest < 0 or (vocabulary is not None and values.highest_target >= vocabulary)
    is_absolute = values.distinct_value_count == values.count and values.fall_count == 0 and values.count > 1
    if is_outside and is_absolute and values.lowest >= 0:
        text = f"d2t holds ids of the target instead of differences: the highest would become {values.highest_target}"
        yield fail(text, "subtract its place from each number")
    elif is_outside:
        text = f"d2t leads to ids from {min(values.lowest, 0)} to {values.highest_target}"
        yield fail(f"{text}, the target has {vocabulary} tokens", _EXPORT)
    elif values.distinct_target_count < values.count:
        double = values.count - values.distinct_target_count
        yield warn(f"d2t leads {double} draft tokens to a target token that another one has", _EXPORT)
    elif values.fall_count:
        yield warn(f"d2t falls at {values.fall_count} places, which no trainer writes", _EXPORT)


def _target_mask(pair: Pair) -> Iterator[Finding]:
    """Yield what `t2d` tells: the engine ignores it, but one that does not fit points to a mixed-up export."""
    size, mask = pair.sizes.draft_vocabulary, pair.draft.t2d
    if mask is None or size is None or pair.draft_config.values.get("draft_vocab_size") is None:
        return
    if mask.nonzero_count != size:
        text = f"t2d marks {mask.nonzero_count} tokens, draft_vocab_size is {size}"
        yield warn(f"{text}; the engine ignores t2d, but the export may be mixed up", _EXPORT)
