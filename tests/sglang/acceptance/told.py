"""What an engine tells, for these tests: decode lines, scrapes, and instants."""

from datetime import UTC, datetime, timedelta

from service.sglang.acceptance import AcceptanceWatch, Decoding, Quote
from service.sglang.acceptance.reports import Report
from service.sglang.metrics import EngineCounters

BEGIN = datetime(2026, 3, 1, 10, tzinfo=UTC)


def at(second: float) -> datetime:
    """Return an instant so many seconds into the story."""
    return BEGIN + timedelta(seconds=second)


def decode_line(length: float, *, rate: float | None = 0.2, running: int = 1) -> bytes:
    """Return a decode line as 0.5.6 and later write it; without a rate as 0.5.2 does."""
    rated = f", accept rate: {rate:.2f}" if rate is not None else ""
    return (
        f"[2026-03-01 10:00:00 TP0] Decode batch, #running-req: {running}, #token: 512, token usage: 0.01, "
        f"accept len: {length:.2f}{rated}, cuda graph: True, gen throughput (token/s): 90.11, #queue-req: 0"
    ).encode()


def feed(watch: AcceptanceWatch, *lines: bytes) -> None:
    """Give a watch lines as the reader of the log does."""
    for raw in lines:
        watch.note(raw, raw.index(b" batch"), watch.lines + 1)


def report(length: float, *, steps: float = 40.0, reports: int = 1) -> Report:
    """Return a report of so many verify steps."""
    told = Decoding.told(accept_length=length, accept_rate=None, verify_steps=steps)
    return Report(Decoding(reports, told.verify_steps, told.tokens), 1, Quote(7, f"accept len: {length:.2f}"))


def scrape(tokens: float | None, length: float | None = None, *, rate: float | None = None) -> EngineCounters:
    """Return one scrape of a server with two requests."""
    return EngineCounters(
        decode_tokens=tokens, accept_length=length, accept_rate=rate, running_requests=2.0, generation_tokens=5.0
    )
