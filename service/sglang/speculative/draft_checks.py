"""Every check of a draft against its target, by the rules of the installed engine's release."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from service.sglang.arguments import ArgumentValue
from service.sglang.checks import Check, CheckCode, Outcome, worst
from service.sglang.model_files import ModelFiles
from service.sglang.releases import KnownRelease, known_release
from service.sglang.serving_arguments import ServingArguments, serving_arguments
from service.sglang.speculative.capture_checks import check_layer_ids, check_target_capture
from service.sglang.speculative.identity import check_algorithm, check_architecture
from service.sglang.speculative.numerics import check_dtype, check_flags, check_quantization, check_rope
from service.sglang.speculative.pair import Pair
from service.sglang.speculative.sizes import (
    check_context_length,
    check_hidden_size,
    check_tensor_parallel,
    check_vocabulary,
)
from service.sglang.speculative.token_map import check_token_map
from service.sglang.speculative.weight_checks import check_weights
from service.sglang.versions import Version
from service.sglang.weight_files import check_config, check_path, check_weight_files

CHECKS: tuple[Callable[[Pair], Check], ...] = (
    check_algorithm,
    check_architecture,
    check_context_length,
    check_hidden_size,
    check_vocabulary,
    check_token_map,
    check_target_capture,
    check_layer_ids,
    check_flags,
    check_tensor_parallel,
    check_dtype,
    check_quantization,
    check_rope,
)


def check_draft(
    target: ModelFiles,
    draft: ModelFiles,
    arguments: Mapping[str, ArgumentValue],
    engine_version: str | None,
    *,
    environment: Mapping[str, str] | None = None,
) -> tuple[Check, ...]:
    """Return the checks of a draft with this target, these arguments and this version of the engine.

    A version that was not read is judged by the nearest release below it, or the newest, and its findings say so.
    Between two known releases that differ, what would fail by one of them only is a warning. When a directory or a
    config.json is missing, the checks end there.
    """
    known, serving = known_release(engine_version), serving_arguments(arguments)
    checks = _judge(target, draft, serving, environment or {}, known.release)
    if known.next_known is not None:
        later = {check.code: check for check in _judge(target, draft, serving, environment or {}, known.next_known)}
        checks = tuple(_between(check, later[check.code], known) for check in checks)
    return tuple(_noted(check, known) for check in checks)


def _judge(
    target: ModelFiles,
    draft: ModelFiles,
    serving: ServingArguments,
    environment: Mapping[str, str],
    release: Version,
) -> tuple[Check, ...]:
    load_format = serving.text("speculative-draft-load-format")
    files = (
        check_path(CheckCode.DRAFT_PATH, draft, subject="the draft"),
        check_config(CheckCode.DRAFT_CONFIG, draft, subject="the draft"),
        check_weight_files(CheckCode.DRAFT_WEIGHT_FILES, draft, release, load_format=load_format),
    )
    if target.config is None or draft.config is None:
        return files
    pair = Pair(target, draft, target.config, draft.config, serving, environment, release)
    return (*files, *(check(pair) for check in CHECKS), *check_weights(pair))


def _between(lower: Check, upper: Check, known: KnownRelease) -> Check:
    """Return the check of a version between two releases: where only one of them fails, nobody knows."""
    if lower.outcome is upper.outcome:
        return lower
    bad = lower if lower.outcome is worst((lower, upper)) else upper
    if bad.outcome is not Outcome.FAIL:
        return bad
    release = known.release if bad is lower else known.next_known
    return replace(bad, outcome=Outcome.WARN, found=f"by the rules of {release}: {bad.found}")


def _noted(check: Check, known: KnownRelease) -> Check:
    if known.note is None or check.outcome not in {Outcome.WARN, Outcome.FAIL}:
        return check
    return replace(check, found=f"{check.found} ({known.note})", facts={**check.facts, "note": known.note})
