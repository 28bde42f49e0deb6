"""What the speculative arguments ask for, and what each release makes of them (facts: SGLang §2.1).

The engine that will run them judges arguments best; these rules are for where it cannot be asked, and for what it takes
without a word.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from service.sglang.arguments import ArgumentValue
from service.sglang.checks import Check, CheckCode, Finding, Outcome, concluded, fail, warn
from service.sglang.model_config import ModelConfig
from service.sglang.releases import V0_5_2, V0_5_6, V0_5_16, KnownRelease, known_release
from service.sglang.serving_arguments import ServingArguments, serving_arguments
from service.sglang.speculative import classes
from service.sglang.speculative.flags import FREE_ALGORITHM_NAMES_SINCE, algorithms, flag_since, speculative_flags
from service.sglang.versions import Version

EAGLE_FAMILY = frozenset({"EAGLE", "EAGLE3", "NEXTN", "STANDALONE"})
WITHOUT_DRAFT = frozenset({"NGRAM"})
DEFAULT_MAX_RUNNING_REQUESTS = 48
_ALGORITHM = "speculative-algorithm"
_DRAFT_PATH = "speculative-draft-model-path"
_STEPS, _TOPK, _TOKENS = "speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens"
_THRESHOLDS = ("speculative-accept-threshold-single", "speculative-accept-threshold-acc")
_TREE_BACKENDS = ("flashinfer", "fa3", "triton")


@dataclass(frozen=True, slots=True)
class DraftSource:
    """Where the draft of a launch is: in a directory or hub id of its own, or in the target itself."""

    path: str
    is_target: bool
    revision: str | None = None


def algorithm_of(arguments: ServingArguments) -> str | None:
    """Return the algorithm in capitals, None without speculation."""
    name = arguments.text(_ALGORITHM)
    return name.upper() if name else None


def draft_source(arguments: Mapping[str, ArgumentValue], *, model_path: str) -> DraftSource | None:
    """Return where the draft is that a launch with these arguments would load, None when it loads none.

    Without a path the engine opens the target's own directory as the draft: right for a target that carries one.
    """
    serving = serving_arguments(arguments)
    algorithm = algorithm_of(serving)
    if algorithm is None or algorithm in WITHOUT_DRAFT:
        return None
    path = serving.text(_DRAFT_PATH)
    if path is None or path == model_path:
        return DraftSource(model_path, is_target=True, revision=serving.text("revision"))
    return DraftSource(path, is_target=False, revision=serving.text("speculative-draft-model-revision"))


def check_speculative_arguments(
    arguments: Mapping[str, ArgumentValue], *, target: ModelConfig | None, engine_version: str | None
) -> Check:
    """Return what a release would say of the speculative arguments; `target` is the target's configuration."""
    known = known_release(engine_version)
    serving = serving_arguments(arguments)
    given = [name for name in serving.values if name.startswith("speculative-") and serving.is_set(name)]
    findings = [*_names(serving, known), *_findings(serving, target, known.release)]
    if known.next_known:
        later = {finding.remedy for finding in _findings(serving, target, known.next_known)}
        findings = [item if item.remedy in later else _doubtful(item, known) for item in findings]
    algorithm = algorithm_of(serving)
    otherwise = f"{algorithm} with {len(given)} speculative arguments" if algorithm else "no speculation is asked for"
    if algorithm in EAGLE_FAMILY and not serving.is_set("max-running-requests"):
        otherwise += f"; the engine will set max-running-requests to {DEFAULT_MAX_RUNNING_REQUESTS}"
    facts = {"algorithm": algorithm, "judged_as": str(known.release), "note": known.note}
    return concluded(CheckCode.SPECULATIVE_ARGUMENTS, findings, otherwise=otherwise, facts=facts)


def _doubtful(finding: Finding, known: KnownRelease) -> Finding:
    """Return what one of two neighbouring releases says and the other does not."""
    if finding.outcome is not Outcome.FAIL:
        return finding
    return Finding(Outcome.WARN, f"{finding.found} (by the rules of {known.release}; {known.note})", finding.remedy)


def _findings(serving: ServingArguments, target: ModelConfig | None, release: Version) -> Iterator[Finding]:
    algorithm = algorithm_of(serving)
    if algorithm is None:
        if any(name.startswith("speculative-") and serving.is_set(name) for name in serving.values):
            yield warn(
                "speculative arguments are given without --speculative-algorithm: there will be no speculation",
                "add --speculative-algorithm",
            )
        return
    yield from _algorithm(serving, release)
    if algorithm in EAGLE_FAMILY:
        yield from _numbers(serving, release)
        yield from _draft_path(serving, algorithm, target, release)
    if algorithm in {"STANDALONE", "NGRAM"} and serving.has_dp_attention:
        yield fail(f"{algorithm} does not work with attention in data parallel", "drop one of the two")
    if algorithm == "NGRAM" and serving.is_set(_DRAFT_PATH):
        yield warn("NGRAM uses no draft model: --speculative-draft-model-path is ignored")
    if algorithm == "EAGLE3" and serving.is_set("speculative-token-map"):
        yield warn("EAGLE3 ignores --speculative-token-map: its draft brings its own d2t", "drop the flag")
    if release >= V0_5_16 and serving.is_set("speculative-use-rejection-sampling"):
        yield from _rejection_sampling(serving, algorithm)


def _names(serving: ServingArguments, known: KnownRelease) -> Iterator[Finding]:
    """Yield arguments that the release does not have; for a version that was not read it is only a suspicion."""
    release = known.release
    flags = speculative_flags(release)
    unknown = warn if known.note else fail
    for name in serving.values:
        if not serving.is_set(name) or name in flags or "speculative" not in name or name.startswith("no-"):
            continue
        longer = sorted(flag for flag in flags if flag.startswith(name))
        since = flag_since(name)
        if len(longer) == 1:
            text = f"--{name} is short for --{longer[0]}; such abbreviations break when a release adds a flag"
            yield warn(text, f"write --{longer[0]}")
        elif longer:
            yield unknown(f"--{name} could be {', '.join(f'--{flag}' for flag in longer)}", "write the name in full")
        elif since is not None and since > release:
            yield unknown(f"SGLang {release} has no --{name}; it came with {since}", "drop the flag, or upgrade")
        else:
            yield unknown(f"SGLang {release} has no --{name}", _suggestion(name, flags))


def _suggestion(name: str, known: Iterable[str]) -> str | None:
    """Return the flag that was probably meant: the words are the same in another order, or the spelling is close."""
    words = set(name.split("-"))
    ranked = sorted(known, key=lambda flag: (-len(words & set(flag.split("-"))), len(flag), flag))
    close = get_close_matches(name, ranked, n=1, cutoff=0.85) or ranked[:1]
    return f"did you mean --{close[0]}?" if close else None


def _algorithm(serving: ServingArguments, release: Version) -> Iterator[Finding]:
    written = serving.text(_ALGORITHM) or ""
    names = algorithms(release)
    if written.upper() not in names:
        if release < FREE_ALGORITHM_NAMES_SINCE:
            yield fail(f"SGLang {release} has no algorithm {written}", f"choose one of {', '.join(names)}")
        else:
            text = f"SGLang {release} has no algorithm {written} of its own: it must come from a plug-in"
            yield warn(text, f"choose one of {', '.join(names)}")
    elif written not in names and release < FREE_ALGORITHM_NAMES_SINCE:
        yield fail(f"SGLang {release} wants the algorithm in capitals, not {written}", f"write {written.upper()}")


def _numbers(serving: ServingArguments, release: Version) -> Iterator[Finding]:
    """Yield what is wrong with steps, topk and draft tokens: all three, or none, is the safe rule."""
    steps, topk, tokens = (serving.whole(name) for name in (_STEPS, _TOPK, _TOKENS))
    complete = f"give --{_STEPS}, --{_TOPK} and --{_TOKENS} together, or none of them"
    if steps is None:
        if (topk is not None or tokens is not None) and not serving.is_set("speculative-adaptive"):
            given = " and ".join(f"--{name}" for name, value in ((_TOPK, topk), (_TOKENS, tokens)) if value is not None)
            yield fail(f"{given} without --{_STEPS}: the engine ends with a bare AssertionError", complete)
        return
    if topk is None:
        text = f"--{_STEPS} without --{_TOPK}: the engine ends with TypeError ('>' between NoneType and int)"
        if release >= V0_5_2 and not serving.is_set("speculative-adaptive"):
            yield fail(text, complete)
        return
    if topk == 1 and tokens != steps + 1:
        text = f"with --{_TOPK} 1 the engine sets --{_TOKENS} to {steps + 1} (steps + 1), not {tokens}"
        yield warn(text, f"give --{_TOKENS} {steps + 1}")
    backend = serving.text("attention-backend")
    if topk > 1 and backend == "trtllm_mha" and release >= V0_5_2:
        yield fail("trtllm_mha takes only topk 1", f"give --{_TOPK} 1, or another attention backend")
    page_size = serving.whole("page-size") or 1
    tree = _TREE_BACKENDS if release >= V0_5_16 else _TREE_BACKENDS[:2] if release >= V0_5_6 else _TREE_BACKENDS[:1]
    if topk > 1 and page_size > 1 and backend is not None and backend not in tree and release >= V0_5_2:
        text = f"topk {topk} with page size {page_size} works on {', '.join(tree)} only, not on {backend}"
        yield fail(text, "give --page-size 1, topk 1, or one of these backends")


def _draft_path(
    serving: ServingArguments, algorithm: str, target: ModelConfig | None, release: Version
) -> Iterator[Finding]:
    if serving.is_set(_DRAFT_PATH) or target is None:
        return
    architecture = target.architecture
    remedy = f"give --{_DRAFT_PATH}"
    if algorithm == "EAGLE3":
        text = "EAGLE3 without a draft: the engine loads the target a second time and ends with an AttributeError"
        yield fail(f"{text} (set_embed, hot_token_id)", remedy)
    elif algorithm == "STANDALONE":
        yield warn("STANDALONE without a draft: the engine loads the target a second time as its own draft", remedy)
    elif architecture is not None and not classes.fills_in_own_draft(architecture, release):
        since = classes.switch_since(architecture)
        if since is None or since > release:
            text = f"{algorithm} without a draft, and SGLang {release} knows no draft layer of {architecture}"
            yield warn(f"{text}: it loads the target a second time", remedy)


def _rejection_sampling(serving: ServingArguments, algorithm: str) -> Iterator[Finding]:
    flag = "--speculative-use-rejection-sampling"
    if algorithm not in {"EAGLE", "EAGLE3", "NEXTN"}:
        yield fail(f"{flag} works with EAGLE, EAGLE3 and NEXTN only", "drop the flag")
    if serving.whole(_TOPK) not in {None, 1}:
        yield fail(f"{flag} needs --{_TOPK} 1", f"give --{_TOPK} 1")
    if any(serving.text(name) not in {None, "1", "1.0"} for name in _THRESHOLDS):
        yield fail(f"{flag} cannot be combined with accept thresholds other than 1.0", "drop the thresholds")
