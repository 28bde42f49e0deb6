"""What holds of every log: any chopping reads the same, no bytes break it, and memory stays bounded."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from service.sglang.failures import diagnose, findings
from service.sglang.startup_log import StartupLog
from tests.sglang.kinds import RESOURCE_KINDS
from tests.sglang.lines import SERVING, as_log, stamped
from tests.sglang.setup_kinds import SETUP_KINDS

PIECES = (
    *(("\n".join(kind.lines) + "\n").encode() for kind in (*RESOURCE_KINDS, *SETUP_KINDS)),
    as_log(SERVING),
    b"Multi-thread loading shards:  50% Completed | 1/2 [00:00<?, ?it/s]\r",
    b"  0%|          | 0/58 [00:00<?, ?it/s]\x1b[32m[2026-03-01 10:00:01 TP1] Load weight begin. avail\x1b[0m\n",
    b'{"log":"[2026-03-01 10:00:01] Init parallel begin.\\n","stream":"stderr","time":"2026-03-01T10:00:01Z"}\n',
    b"\xff\xfe\x00\x00 Fatal Python error: \xc3\x28 Aborted\n",
    b"Traceback (most recent call last):\n",
    b"During handling of the above exception, another exception occurred:\n\n",
    b"Current thread 0x00007f (most recent call first):\n",
    as_log([stamped(9, "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.")]),
    as_log([stamped(10, 'INFO:     127.0.0.1:4 - "GET /health HTTP/1.1" 200 OK')]),
    as_log([stamped(11, "Decode batch, #running-req: 1, accept len: 1.00, accept rate: 0.00, #queue-req: 0")]),
    b"\n",
    b"\r\n",
    b"x" * 200,
)
LOGS = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=60)), max_size=14).map(b"".join)
AT = datetime(2026, 3, 1, tzinfo=UTC)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts})
    return [data[begin:end] for begin, end in zip([0, *places], [*places, len(data)], strict=True)]


@settings(max_examples=150, deadline=None)
@given(data=LOGS, cuts=st.lists(st.integers(0, 6_000), max_size=12), has_arrival=st.booleans(), looks=st.booleans())
def test_any_chopping_reads_the_same(data: bytes, cuts: list[int], *, has_arrival: bool, looks: bool) -> None:
    at = AT if has_arrival else None
    whole = StartupLog().feed(data, at)
    chopped = StartupLog()
    for piece in pieces(data, cuts):
        chopped = chopped.feed(piece, at)
        if looks:
            assert chopped.reading is not None
    assert chopped.reading == whole.reading
    assert chopped.faults == whole.faults
    assert diagnose(chopped) == diagnose(whole)
    assert findings(chopped) == findings(whole)


@settings(max_examples=60, deadline=None)
@given(data=LOGS)
def test_byte_by_byte_reads_the_same(data: bytes) -> None:
    data = data[:1_500]
    log = StartupLog()
    for index in range(len(data)):
        log = log.feed(data[index : index + 1])
    assert log.reading == StartupLog().feed(data).reading


@settings(max_examples=60, deadline=None)
@given(data=LOGS, cut=st.integers(0, 20_000))
def test_a_log_cut_anywhere_is_read(data: bytes, cut: int) -> None:
    log = StartupLog().feed(data[:cut])
    assert log.reading.is_ready is False or log.reading.has_failed is False
    diagnose(log)


def test_a_line_without_end_takes_constant_memory_and_hides_nothing() -> None:
    log = StartupLog().feed(as_log(SERVING))
    for _ in range(50):
        log = log.feed(b"\x00garbage, error: " * 65_536)
    log = log.feed(b"\n" + as_log([stamped(50, "Received sigquit from a child process. It usually means the child")]))
    assert log.reading.has_failed
    assert all(len(fault.text) < 10_000 for fault in log.faults)


def test_endless_tracebacks_and_complaints_keep_the_first_and_the_last() -> None:
    log = StartupLog().feed(as_log(SERVING))
    for n in range(3_000):
        log = log.feed(
            f'Traceback (most recent call last):\n  File "a{n}.py", line 1, in f\nValueError: number {n}\n'
            f"[2026-03-01 10:01:00] error of the kind {chr(97 + n % 26)}{chr(97 + n // 26 % 26)} {n}\n".encode()
        )
    texts = [fault.text for fault in log.faults]
    assert len(texts) < 500
    assert "ValueError: number 0" in texts
    assert "ValueError: number 2999" in texts
