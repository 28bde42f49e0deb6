"""For how long, and for what, a judgement is believed; and what an engine's help tells of its options."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from service.sglang.help_text import options_from_help
from service.sglang.judgement import (
    EngineOption,
    GpuStandIn,
    JudgedBy,
    JudgementCache,
    JudgementKey,
    JudgementStamps,
    ResolutionError,
    judgement_key,
)
from tests.sglang.engine_options import resolved

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
STAMPS = JudgementStamps("0.5.23", "engine", "login", ("model",))


def key(*argv: str, **changes: object) -> JudgementKey:
    fields: dict[str, object] = {
        "node": "nd_1",
        "python": "/opt/sglang/bin/python",
        "argv": argv,
        "environment": {},
        "gpus": (),
        "stamps": STAMPS,
        **changes,
    }
    return judgement_key(**fields)  # type: ignore[arg-type]  # the caller names fields


def test_the_port_and_the_choice_of_gpus_change_nothing() -> None:
    plain = key("--tp-size", "2")
    assert key("--tp-size", "2", "--port", "31000") == plain
    assert key("--port=31000", "--tp-size", "2") == plain
    assert key("--tp-size", "2", environment={"CUDA_VISIBLE_DEVICES": "GPU-1"}) == plain
    assert key("--tp-size", "2", "--port") == plain


def test_all_else_changes_it() -> None:
    plain = key("--tp-size", "2")
    others = {
        key("--tp-size", "4"),
        key("--tp-size", "2", node="nd_2"),
        key("--tp-size", "2", python="/other/python"),
        key("--tp-size", "2", environment={"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}),
        key("--tp-size", "2", gpus=(GpuStandIn("NVIDIA H200", 143_771),)),
        key("--tp-size", "2", stamps=replace(STAMPS, engine="reinstalled")),
        key("--tp-size", "2", stamps=replace(STAMPS, login="another HF_HOME")),
        key("--tp-size", "2", stamps=replace(STAMPS, models=("changed",))),
    }
    assert plain not in others
    assert len(others) == 8


def test_a_judgement_is_kept_for_an_hour() -> None:
    cache = JudgementCache()
    cache.keep(key(), resolved(), now=NOW)
    assert cache.find(key(), now=NOW) == resolved()
    assert cache.find(key(), now=NOW + timedelta(minutes=59)) == resolved()
    assert cache.find(key("--tp-size", "2"), now=NOW) is None
    assert cache.find(key(), now=NOW + timedelta(hours=1)) is None
    assert len(cache) == 0


def test_a_clock_that_went_back_ends_it() -> None:
    cache = JudgementCache()
    cache.keep(key(), resolved(), now=NOW)
    assert cache.find(key(), now=NOW - timedelta(seconds=1)) is None


def test_refusals_are_kept_and_doubts_are_not() -> None:
    cache = JudgementCache()
    refused = resolved(resolution_error=ResolutionError("ValueError", "no"))
    unparsed = resolved(how=JudgedBy.ENGINE_PARSED_ONLY, parse_errors=("ambiguous option",))
    cache.keep(key("a"), refused, now=NOW)
    cache.keep(key("b"), unparsed, now=NOW)
    cache.keep(key("c"), resolved(how=JudgedBy.ENGINE_PARSED_ONLY, unjudged="a GPU was wanted"), now=NOW)
    cache.keep(key("d"), resolved(how=JudgedBy.HELP_TEXT, unjudged="other names"), now=NOW)
    assert cache.find(key("a"), now=NOW) == refused
    assert cache.find(key("b"), now=NOW) == unparsed
    assert len(cache) == 2


def test_the_oldest_goes_and_the_list_of_options_is_kept_once() -> None:
    cache = JudgementCache(limit=2)
    for number in range(3):
        copied = resolved(options=tuple(EngineOption(("--x", f"--y{index}")) for index in range(3)))
        cache.keep(key(str(number)), copied, now=NOW)
    assert cache.find(key("0"), now=NOW) is None
    first, second = cache.find(key("1"), now=NOW), cache.find(key("2"), now=NOW)
    assert first is not None
    assert second is not None
    assert first.options is second.options


HELP = """warning: something printed before
usage: sglang serve [-h] --model-path MODEL_PATH [--tp-size TP_SIZE]

options:
  -h, --help            show this help message and exit
  --model-path MODEL_PATH, --model MODEL_PATH
                        The path of the weights. See --not-an-option.
  --tokenizer-mode {auto,slow, --tricky}
                        Tokenizer mode.
  --lora-paths [LORA_PATHS ...]
                        Paths.
  --enable-x, --no-enable-x
                        Whether.
  --ep EP               Short.
  --disable-cuda-graph  Deprecated. Use --cuda-graph-backend-decode=disabled
                        instead.
"""


def test_options_are_read_from_help() -> None:
    old = "Deprecated. Use --cuda-graph-backend-decode=disabled instead."
    assert options_from_help(HELP) == (
        EngineOption(("--help",)),
        EngineOption(("--model-path", "--model")),
        EngineOption(("--tokenizer-mode",)),
        EngineOption(("--lora-paths",)),
        EngineOption(("--enable-x", "--no-enable-x")),
        EngineOption(("--ep",)),
        EngineOption(("--disable-cuda-graph",), old),
    )
    assert options_from_help("") == ()
