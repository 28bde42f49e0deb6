"""The numbers of decode lines: whatever the version writes between them."""

import pytest

from service.sglang.acceptance import AcceptanceWatch, RateDefinition, rate_definition
from service.sglang.startup_log import StartupLog
from tests.sglang.acceptance.told import decode_line, feed


def test_a_line_tells_of_one_verify_step_of_each_request_in_each_iteration() -> None:
    watch = AcceptanceWatch()
    feed(watch, decode_line(2.5, rate=0.5, running=3), decode_line(1.0, rate=0.0, running=1))
    total = watch.total
    assert (total.reports, total.verify_steps, total.tokens) == (2, 160, 340)
    assert total.accept_length == 2.125
    assert total.accept_rate == 0.375
    assert watch.running_requests == 1


def test_an_interval_of_the_arguments_counts() -> None:
    watch = AcceptanceWatch(decode_log_interval=5)
    feed(watch, decode_line(1.0))
    assert watch.total.verify_steps == 5


@pytest.mark.parametrize(
    "written",
    ["server_args=ServerArgs(model_path='/m', decode_log_interval=8)", "server_args={'decode_log_interval': 8}"],
)
def test_the_log_itself_says_its_interval(written: str) -> None:
    log = StartupLog().feed(f"[2026-03-01 10:00:00] {written}\n".encode()).feed(decode_line(2.0) + b"\n")
    assert log.acceptance.total.verify_steps == 8


def test_a_line_without_an_accept_length_says_nothing() -> None:
    watch = AcceptanceWatch()
    feed(watch, b"[2026-03-01 10:00:00] Decode batch, #running-req: 1, #token: 9, #queue-req: 0")
    feed(watch, b"Decode batch, #running-req: 1, accept len: nan, #queue-req: 0", b"Decode batch, accept len: ")
    assert watch == AcceptanceWatch()


def test_a_version_without_a_rate_has_none() -> None:
    watch = AcceptanceWatch()
    feed(watch, decode_line(2.0, rate=None))
    assert (watch.total.accept_length, watch.total.accept_rate) == (2.0, None)


def test_the_accept_length_of_a_block_is_not_that_of_the_step() -> None:
    watch = AcceptanceWatch()
    feed(
        watch, b"Decode batch, #running-req: 1, accept len: 2.00, accept rate: 0.50, block accept len: 9.00, cap len: 3"
    )
    assert watch.total.accept_length == 2.0


def test_an_unfinished_line_is_not_counted_before_it_ends() -> None:
    line = decode_line(2.75)
    log = StartupLog().feed(line[: line.index(b".75")])
    assert log.reading.line_count == 1
    assert log.acceptance.lines == 0
    assert log.feed(line[line.index(b".75") :] + b"\n").acceptance.total.accept_length == 2.75


@pytest.mark.parametrize(
    ("version", "definition"),
    [
        ("0.5.23", RateDefinition.DRAFTS_ONLY),
        ("0.5.16", RateDefinition.DRAFTS_ONLY),
        ("0.5.12", RateDefinition.UNKNOWN),
        ("0.5.10.post1", RateDefinition.WITH_BONUS),
        ("0.5.6.post2", RateDefinition.WITH_BONUS),
        ("0.5.4", RateDefinition.UNKNOWN),
        ("0.5.2", RateDefinition.NONE),
        ("0.4.9.post6", RateDefinition.NONE),
        (None, RateDefinition.UNKNOWN),
    ],
)
def test_the_rate_is_what_the_version_says_it_is(version: str | None, definition: RateDefinition) -> None:
    assert rate_definition(version) is definition
