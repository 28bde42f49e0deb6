"""Whether the numbers of draft and target fit: context length, widths, vocabularies, heads over GPUs."""

from collections.abc import Iterator

from service.sglang.checks import Check, CheckCode, Finding, concluded, fail, skipped, warn
from service.sglang.releases import V0_4_9, V0_5_2, V0_5_6, V0_5_16
from service.sglang.serving_arguments import LONGER_CONTEXT_VARIABLE, allows_longer_context
from service.sglang.speculative.classes import Family
from service.sglang.speculative.pair import Pair
from service.sglang.tensor_parallel import split_findings


def check_context_length(pair: Pair) -> Check:
    """Judge the draft's context length against the one that will be served (facts: drafts §5; scenario: the vigil)."""
    given = pair.arguments.whole("context-length")
    served = given or pair.target_config.text.context_length
    draft = pair.draft_config.text.context_length
    source = "--context-length" if given else f"the target's {pair.target.directory}/config.json"
    place = f"{pair.draft.directory}/config.json"
    facts = {"served_tokens": served, "draft_tokens": draft, "draft_file": place, "is_served_given": given is not None}
    otherwise = f"the draft takes {draft} tokens, {served} will be served"
    findings: list[Finding] = []
    if draft < served:
        text = f"{served} tokens would be served ({source}), the draft takes {draft} ({place})"
        if pair.release <= V0_4_9 and allows_longer_context(pair.environment, pair.release):
            findings.append(warn(f"{text}: only a warning in {pair.release}, fatal in later releases"))
        elif allows_longer_context(pair.environment, pair.release):
            how = " by the engine" if pair.release >= V0_5_6 else ", its table of positions is not"
            text = f"{text}: lengthened{how} ({LONGER_CONTEXT_VARIABLE}); beyond {draft} it guesses worse"
            findings.append(warn(text, f"give --context-length {draft} if long requests are slow"))
        else:
            remedy = f"set {LONGER_CONTEXT_VARIABLE}=1 in the environment, or give --context-length {draft}"
            findings.append(fail(f"{text}: the engine refuses to start", remedy))
    return concluded(CheckCode.DRAFT_CONTEXT_LENGTH, findings, otherwise=otherwise, facts=facts)


def check_hidden_size(pair: Pair) -> Check:
    """Judge whether the draft takes hidden states as wide as the target's."""
    code = CheckCode.DRAFT_HIDDEN_SIZE
    target, draft = pair.target_config.text.whole("hidden_size"), pair.draft_config.text.whole("hidden_size")
    if not pair.is_eagle:
        return skipped(code, "only EAGLE drafts take the target's hidden states through fc")
    if target is None or draft is None:
        return skipped(code, "a config.json does not state hidden_size")
    stated = pair.draft_config.values.get("target_hidden_size")
    facts = {"target": target, "draft": draft, "target_hidden_size": stated}
    otherwise = f"the target's hidden states are {target} wide, the draft takes {stated or draft}"
    return concluded(code, _hidden_size(pair, target, draft), otherwise=otherwise, facts=facts)


def check_vocabulary(pair: Pair) -> Check:
    """Judge whether draft and target mean the same tokens."""
    code = CheckCode.DRAFT_VOCABULARY
    target, draft = pair.target_config.text.whole("vocab_size"), pair.draft_config.text.whole("vocab_size")
    if target is None or draft is None:
        return skipped(code, "a config.json does not state vocab_size")
    facts = {"target": target, "draft": draft, "draft_vocab_size": pair.draft_config.values.get("draft_vocab_size")}
    findings = [*_vocabulary(pair, target, draft), *_draft_vocabulary(pair, target), *_special_tokens(pair)]
    otherwise = f"both have a vocabulary of {target}; {_tokenizers(pair)}"
    return concluded(code, findings, otherwise=otherwise, facts=facts)


def check_tensor_parallel(pair: Pair) -> Check:
    """Judge whether the draft's heads and widths can be split over the GPUs: the draft uses the target's numbers."""
    arguments, config = pair.arguments, pair.draft_config.text
    findings = list(split_findings(config, arguments, subject="the draft"))
    if arguments.pp_size > 1 and pair.family is not Family.MODEL:
        findings.append(warn(f"pipeline parallel {arguments.pp_size}: many draft classes work with 1 only"))
    facts = {"tp_size": arguments.tp_size, "heads": config.whole("num_attention_heads"), "kv_heads": config.kv_heads}
    otherwise = f"the draft's heads divide by {arguments.attention_tp_size}"
    return concluded(CheckCode.DRAFT_TENSOR_PARALLEL, findings, otherwise=otherwise, facts=facts)


def _hidden_size(pair: Pair, target: int, draft: int) -> Iterator[Finding]:
    config = pair.draft_config
    is_stated = config.has("target_hidden_size") and pair.is_eagle3
    if is_stated and config.values["target_hidden_size"] is None and pair.family is Family.EAGLE3:
        text = "target_hidden_size is null in the draft's config.json: the engine ends with a TypeError"
        yield fail(text, "remove the key, or state the number")
        return
    taken = config.whole("target_hidden_size") if is_stated else draft
    if taken is not None and taken != target:
        what = "target_hidden_size" if is_stated else "hidden_size"
        text = f"the target's hidden states are {target} wide, the draft's {what} is {taken}"
        remedy = "take the draft that was trained for this target"
        if not is_stated and pair.is_eagle3:
            remedy += f"; if it was, state target_hidden_size {target} and ship embed_tokens with it"
        yield fail(f"{text}: the first forward pass fails (mat1 and mat2 shapes cannot be multiplied)", remedy)


def _vocabulary(pair: Pair, target: int, draft: int) -> Iterator[Finding]:
    if target == draft:
        return
    text = f"the target has {target} tokens, the draft's configuration {draft}"
    if pair.algorithm != "STANDALONE":
        remedy = "take the draft that was trained for this target, or correct its vocab_size"
        yield warn(f"{text}: probably a draft for another family of models", remedy)
    elif pair.release >= V0_5_16:
        yield fail(f"{text}: STANDALONE refuses to start", "take a draft with the same (also padded) vocabulary")
    else:
        how = "ids beyond the target's may crash it" if draft > target else "few tokens will be accepted"
        yield warn(f"{text}: SGLang {pair.release} does not compare them; {how}", "take a draft of the same family")


def _draft_vocabulary(pair: Pair, target: int) -> Iterator[Finding]:
    if not pair.is_eagle3:
        return
    config, release = pair.draft_config, pair.release
    is_tied = config.flag("tie_word_embeddings")
    value = config.values.get("draft_vocab_size")
    if pair.family is Family.EAGLE3 and not config.has("draft_vocab_size") and not (is_tied and release <= V0_5_2):
        text = "the draft's config.json has no draft_vocab_size: the engine ends with an AttributeError"
        yield fail(text, "add it: the number of the draft's tokens, or null (0.5.2 and later) for all")
    elif value is None and config.has("draft_vocab_size") and release <= V0_4_9:
        yield fail("draft_vocab_size is null: SGLang 0.4.9 cannot build a head of that", "state the number")
    elif isinstance(value, int) and value > target:
        yield fail(f"draft_vocab_size {value} is more than the target's {target} tokens", "correct it")
    elif isinstance(value, int) and value != config.whole("vocab_size"):
        if is_tied:
            text = f"tie_word_embeddings with draft_vocab_size {value}: the head would be the whole embedding"
            yield warn(text, "set tie_word_embeddings to false")
        if pair.arguments.is_set("speculative-use-rejection-sampling") and release >= V0_5_16:
            text = "--speculative-use-rejection-sampling needs draft and target to share one vocabulary"
            yield fail(f"{text}; the draft has {value} of the {target} tokens", "drop the flag")


def _tokenizers(pair: Pair) -> str:
    if pair.draft.tokenizer_sha256 is None or pair.target.tokenizer_sha256 is None:
        return "their tokenizers cannot be compared, one has no tokenizer.json"
    return "their tokenizer.json is the same"


def _special_tokens(pair: Pair) -> Iterator[Finding]:
    """Yield signs of another tokenizer: another file, or other special tokens in the configuration."""
    target_digest, draft_digest = pair.target.tokenizer_sha256, pair.draft.tokenizer_sha256
    if target_digest and draft_digest and target_digest != draft_digest:
        text = "tokenizer.json of draft and target differ: if ids differ too, almost no draft token is accepted"
        yield warn(text, "take the draft that was trained for this tokenizer")
    for name in ("bos_token_id", "eos_token_id"):
        target, draft = (_ids(config.text.values.get(name)) for config in (pair.target_config, pair.draft_config))
        if target and draft and not target & draft:
            text = f"{name} is {sorted(draft)} in the draft and {sorted(target)} in the target"
            yield warn(f"{text}: perhaps another tokenizer", "take the draft that was trained for this tokenizer")


def _ids(value: object) -> set[int]:
    values = value if isinstance(value, list) else [value]
    return {item for item in values if type(item) is int}
