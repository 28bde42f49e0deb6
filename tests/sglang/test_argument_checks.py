"""What an engine's judgement of its arguments becomes: suggestions, refusals, and what could not be judged."""

from collections.abc import Mapping

import pytest

from service.sglang.argument_checks import check_arguments
from service.sglang.arguments import RESERVED_ARGUMENTS, ArgumentValue
from service.sglang.checks import Check, CheckCode, Outcome
from service.sglang.flag_names import KNOWN_ELSEWHERE, closest_flags
from service.sglang.judgement import (
    EnvironmentFault,
    JudgedBy,
    Judgement,
    JudgementTimes,
    ResolutionError,
)
from tests.sglang.engine_options import VERSIONS, options, resolved

MISSPELT: Mapping[str, str] = {
    "num-speculative-tokens": "speculative-num-draft-tokens",
    "tensor-paralel-size": "tensor-parallel-size",
    "atention-backend": "attention-backend",
    "contex-length": "context-length",
    "mem-fracton-static": "mem-fraction-static",
    "max-runing-requests": "max-running-requests",
    "chunked-prefil-size": "chunked-prefill-size",
    "kv-cach-dtype": "kv-cache-dtype",
    "speculative-eagle-top-k": "speculative-eagle-topk",
    "speculative-draft-path": "speculative-draft-model-path",
    "quantisation": "quantization",
    "trust-remotecode": "trust-remote-code",
    "schedule-polcy": "schedule-policy",
    "disable-radix-cahce": "disable-radix-cache",
    "log-levle": "log-level",
    "reasoning-parsr": "reasoning-parser",
    "tool-parser-call": "tool-call-parser",
    "page-sizes": "page-size",
    "watchdog-timeot": "watchdog-timeout",
    "disable-custom-allreduce": "disable-custom-all-reduce",
    "enable-torchcompile": "enable-torch-compile",
    "data-paralell-size": "data-parallel-size",
    "draft-model-path": "speculative-draft-model-path",
    "speculative-algoritm": "speculative-algorithm",
    "radix-cache-disable": "disable-radix-cache",
    "gpu-memory-utilization": "mem-fraction-static",
    "max-model-len": "context-length",
    "max-num-seqs": "max-running-requests",
}


def judged(arguments: Mapping[str, ArgumentValue], judgement: Judgement) -> Check:
    environment, found = check_arguments(judgement, arguments, engine_version=None)
    assert environment.code is CheckCode.ENGINE_ENVIRONMENT
    assert found.code is CheckCode.ENGINE_ARGUMENTS
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("wrong", "right"), MISSPELT.items())
def test_a_misspelt_flag_gets_the_right_one(version: str, wrong: str, right: str) -> None:
    check = judged({wrong: 1}, resolved(version))
    assert check.outcome is Outcome.FAIL
    assert f"SGLang {version} has no --{wrong}" in check.found
    assert (check.remedy or "").startswith(f"did you mean --{right}")


def test_a_flag_like_no_other_gets_no_guess() -> None:
    check = judged({"xyzzy-plugh": 1}, resolved())
    assert (check.outcome, check.remedy) == (Outcome.FAIL, None)


def test_all_unknown_flags_are_told_at_once() -> None:
    check = judged(dict.fromkeys(MISSPELT, 1), resolved())
    assert all(f"no --{wrong}" in check.found for wrong in MISSPELT)


def test_the_engines_own_names_are_not_suggested_as_what_vigil_gives_itself() -> None:
    assert "--model-path" not in (judged({"model-pat": "m", "prot": 1}, resolved()).remedy or "")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_right_command_line_passes(version: str) -> None:
    arguments: dict[str, ArgumentValue] = {"tp-size": 8, "mem-fraction-static": 0.85, "trust-remote-code": True}
    environment, check = check_arguments(resolved(version), arguments, engine_version=None)
    assert (environment.outcome, check.outcome) == (Outcome.PASS, Outcome.PASS)
    assert "parsed and resolved 3 arguments in 8.0 s" in check.found
    assert check.facts["judged_by"] == "engine_resolved"


def test_what_is_not_given_is_not_judged() -> None:
    check = judged({"no-such-flag": None, "nor-this": False, "nor-that": []}, resolved())
    assert check.outcome is Outcome.PASS
    assert judged({"no-such-flag": 0}, resolved()).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("version", "name", "outcome", "remedy"),
    [
        ("0.5.23", "cuda-graph-max-bs", Outcome.FAIL, "write --cuda-graph-max-bs-decode"),
        ("0.5.16", "cuda-graph-max-bs", Outcome.WARN, "write --cuda-graph-max-bs-decode"),
        ("0.5.10.post1", "cuda-graph-max-bs", Outcome.PASS, None),
        ("0.5.23", "cuda-graph-max-bs-decode", Outcome.PASS, None),
        ("0.5.16", "cuda-graph-max-bs-decode", Outcome.PASS, None),
        ("0.5.10.post1", "cuda-graph-max-bs-decode", Outcome.FAIL, "did you mean --cuda-graph-max-bs?"),
        ("0.5.23", "pp", Outcome.FAIL, "write --pp-size"),
        ("0.5.16", "pp", Outcome.FAIL, "write --pp-size"),
        ("0.5.10.post1", "pp", Outcome.FAIL, "write --pp-size"),
        ("0.5.23", "tp", Outcome.WARN, "write --tp-size"),
        ("0.5.23", "ep", Outcome.PASS, None),
        ("0.5.23", "disable-cuda-graph", Outcome.WARN, "write --cuda-graph-backend-{decode,prefill}=disabled"),
        ("0.5.10.post1", "disable-cuda-graph", Outcome.PASS, None),
        ("0.5.23", "enable-dp-attention", Outcome.WARN, "write --attn-dp-size <dp-size>"),
        ("0.5.10.post1", "attn-dp-size", Outcome.FAIL, "did you mean --enable-dp-attention?"),
        ("0.5.23", "grpc-mode", Outcome.WARN, "write --smg-grpc-mode"),
        ("0.5.23", "enable-piecewise-cuda-graph", Outcome.FAIL, "did you mean --cuda-graph-backend-prefill?"),
        ("0.5.23", "disable-piecewise-cuda-graph", Outcome.FAIL, "did you mean --cuda-graph-backend-prefill?"),
        ("0.5.23", "enable-ep-moe", Outcome.FAIL, "did you mean --ep-size?"),
        ("0.5.10.post1", "hybrid-kvcache-ratio", Outcome.WARN, "write --swa-full-tokens-ratio"),
        ("0.5.23", "enable-prefix-caching", Outcome.FAIL, "prefixes are cached unless --disable-radix-cache"),
    ],
)
def test_names_that_drifted_between_releases(version: str, name: str, outcome: Outcome, remedy: str | None) -> None:
    check = judged({name: 1}, resolved(version))
    assert check.outcome is outcome, check
    assert (check.remedy or "").startswith(remedy or ""), check
    assert (check.remedy is None) == (remedy is None)


def test_an_ambiguous_name_comes_with_its_candidates() -> None:
    error = "ambiguous option: --pp could match --pp-size, --pp-max-micro-batch-size, --pp-async-batch-depth"
    parsed = resolved(how=JudgedBy.ENGINE_PARSED_ONLY, parse_errors=(error,))
    check = judged({"pp": 2}, parsed)
    assert check.outcome is Outcome.FAIL
    assert "--pp-size or --pp-max-micro-batch-size or --pp-async-batch-depth" in check.found
    assert check.found.count("ambiguous") == 1, "the parser's words are not repeated"
    unheard = judged({}, parsed)
    assert (unheard.outcome, unheard.found) == (Outcome.FAIL, error)


@pytest.mark.parametrize("name", ["delete-ckpt-after-loading", "delete-ckpt", "delete-c", "node-ra", "nnode", "config"])
@pytest.mark.parametrize("how", [JudgedBy.ENGINE_RESOLVED, JudgedBy.RULES])
def test_what_is_refused_is_refused_outright_also_when_it_is_shortened(name: str, how: JudgedBy) -> None:
    known = options("0.5.23") if how is JudgedBy.ENGINE_RESOLVED else ()
    check = judged({name: True}, resolved(how=how, options=known))
    assert check.outcome is Outcome.FAIL
    full = next(flag for flag in RESERVED_ARGUMENTS if flag.startswith(name))
    assert f"--{full}, which is refused: {RESERVED_ARGUMENTS[full]}" in check.found


def test_a_value_outside_its_choices_gets_the_closest_one() -> None:
    many = ", ".join(repr(f"backend{number}") for number in range(20))
    errors = (
        f"argument --attention-backend: invalid choice: 'flashinfr' (choose from {many}, 'flashinfer')",
        "argument --dtype: invalid choice: 'fp12' (choose from auto, half)",
        "argument --context-length: Invalid integer value: 'many'.",
        "unrecognized arguments: stray",
    )
    check = judged({}, resolved(how=JudgedBy.ENGINE_PARSED_ONLY, parse_errors=errors))
    assert check.outcome is Outcome.FAIL
    assert "--attention-backend takes one of 21 values, not flashinfr" in check.found
    assert "did you mean --attention-backend flashinfer?" in (check.remedy or "")
    assert "--dtype takes auto, half, not fp12" in check.found
    assert errors[2] in check.found
    assert errors[3] in check.found


def test_a_flag_that_the_parser_does_not_know_is_told_once() -> None:
    error = "unrecognized arguments: --num-speculative-tokens 5"
    check = judged({"num-speculative-tokens": 5}, resolved(how=JudgedBy.ENGINE_PARSED_ONLY, parse_errors=(error,)))
    assert check.found == "SGLang 0.5.23 has no --num-speculative-tokens"


HOOK = "sglang/srt/arg_groups/speculative_hook.py"


def raised(kind: str, message: str, source: str = "raise ValueError(") -> Judgement:
    error = ResolutionError(kind, message, HOOK, 1162, "_handle_eagle_family", source)
    return resolved(resolution_error=error)


@pytest.mark.parametrize(
    ("arguments", "kind", "message", "found", "remedy"),
    [
        (
            {"speculative-num-draft-tokens": 16},
            "AssertionError",
            "",
            "of the three speculative numbers only --speculative-num-draft-tokens is given",
            "add --speculative-num-steps and --speculative-eagle-topk, or give none of the three",
        ),
        (
            {"speculative-eagle-topk": 1, "speculative-num-draft-tokens": 4},
            "AssertionError",
            "",
            "only --speculative-eagle-topk and --speculative-num-draft-tokens are given",
            "add --speculative-num-steps, or give none of the three",
        ),
        (
            {"speculative-num-steps": 3},
            "TypeError",
            "'>' not supported between instances of 'NoneType' and 'int'",
            "of the three speculative numbers only --speculative-num-steps is given",
            "add --speculative-eagle-topk and --speculative-num-draft-tokens, or give none of the three",
        ),
        (
            {
                "speculative-num-steps": 3,
                "speculative-eagle-topk": 4,
                "speculative-num-draft-tokens": 8,
                "page-size": 16,
                "attention-backend": "fa4",
            },
            "ValueError",
            "speculative_eagle_topk > 1 with page_size > 1 is only supported on ('flashinfer', 'fa3', 'triton')",
            "is only supported on",
            "give --page-size 1, topk 1, or one of these backends",
        ),
        (
            {
                "speculative-num-steps": 3,
                "speculative-eagle-topk": 4,
                "speculative-num-draft-tokens": 8,
                "attention-backend": "trtllm_mha",
            },
            "ValueError",
            "trtllm_mha backend only supports topk = 1 for speculative decoding.",
            "only supports topk = 1",
            "give --speculative-eagle-topk 1, or another attention backend",
        ),
        (
            {"speculative-draft-sink-size": 16},
            "ValueError",
            "--speculative-draft-sink-size requires --speculative-draft-window-size.",
            "requires --speculative-draft-window-size",
            "give --speculative-draft-window-size, or drop what needs it",
        ),
    ],
)
def test_what_resolution_ends_with_is_explained(
    arguments: dict[str, ArgumentValue], kind: str, message: str, found: str, remedy: str
) -> None:
    check = judged({"speculative-algorithm": "EAGLE3", **arguments}, raised(kind, message))
    assert check.outcome is Outcome.FAIL
    assert found in check.found
    assert check.remedy == remedy


def test_a_bare_assertion_shows_the_line_that_failed() -> None:
    error = ResolutionError("AssertionError", "", "sglang/srt/server_args.py", 99, "check", "assert cfg.tp_size > 0")
    check = judged({}, resolved(resolution_error=error))
    assert "a bare AssertionError at sglang/srt/server_args.py:99 in check (assert cfg.tp_size > 0)" in check.found


def test_an_error_that_a_failed_start_knows_gets_that_remedy() -> None:
    message = (
        "Warning: User-specified context_length (9000) is greater than the derived context_length (2048). This may "
        "lead to incorrect model outputs or CUDA errors."
    )
    place = ("sglang/srt/configs/model_config.py", 1314, "_derive_context_length", "raise ValueError(")
    check = judged({"context-length": 9000}, resolved(resolution_error=ResolutionError("ValueError", message, *place)))
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1" in (check.remedy or "")


def test_warnings_of_what_goes_away_are_told_and_others_kept() -> None:
    texts = ("The tool_call_parser 'qwen25' is deprecated. Please use 'qwen' instead.", "Max running requests is reset")
    check = judged({}, resolved(warnings=texts))
    assert (check.outcome, check.found) == (Outcome.WARN, texts[0])
    assert check.facts["warnings"] == list(texts)


@pytest.mark.parametrize("how", [JudgedBy.ENGINE_PARSED_ONLY, JudgedBy.HELP_TEXT, JudgedBy.RULES])
def test_what_could_not_be_judged_is_skipped_with_the_reason(how: JudgedBy) -> None:
    known = () if how is JudgedBy.RULES else options("0.5.23")
    half = resolved(how=how, options=known, unjudged="a GPU was wanted")
    check = judged({"tp-size": 2}, half)
    assert check.outcome is Outcome.SKIPPED
    assert "a GPU was wanted" in check.found
    if known:
        assert judged({"tp-sizes": 2}, half).outcome is Outcome.FAIL
        warned = judged({"tp": 2}, half)
        assert warned.outcome is Outcome.WARN
        assert "a GPU was wanted" in warned.found


@pytest.mark.parametrize("fault", EnvironmentFault)
def test_an_environment_that_cannot_be_used_fails_and_skips_the_rest(fault: EnvironmentFault) -> None:
    judgement = Judgement(
        JudgedBy.RULES,
        None,
        JudgementTimes(0.1),
        unjudged="the engine's environment cannot be used",
        environment_fault=fault,
        environment_detail="why",
    )
    environment, check = check_arguments(judgement, {"tp-size": 2}, engine_version=None)
    assert (environment.outcome, environment.found) == (Outcome.FAIL, "why")
    assert environment.remedy
    assert check.outcome is Outcome.SKIPPED


def test_an_import_that_was_not_seen_is_not_called_good() -> None:
    late = Judgement(JudgedBy.RULES, "0.5.23", JudgementTimes(45.0), unjudged="the engine was not done within 45 s")
    environment, _ = check_arguments(late, {}, engine_version="0.5.23")
    assert environment.outcome is Outcome.SKIPPED
    assert "not done within 45 s" in environment.found


def test_every_name_from_elsewhere_leads_to_a_flag_of_some_release() -> None:
    known = {name.removeprefix("--") for version in VERSIONS for option in options(version) for name in option.names}
    lost = {name for name, flags in KNOWN_ELSEWHERE.items() if not set(flags) & known}
    assert lost == set()
    assert closest_flags("max-model-len", ()) == ()
