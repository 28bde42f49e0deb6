"""What a serving engine complains of: since when, until when, how often."""

from datetime import UTC, datetime, timedelta

from service.sglang.failures import Code, Finding, diagnose, findings
from service.sglang.startup_log import StartupLog
from tests.sglang.lines import SERVING, as_log, stamped

HEALTH = (
    "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 10:00:"
)
OK = 'INFO:     127.0.0.1:49942 - "GET /health HTTP/1.1" 200 OK'
RETRACT = "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 0.09 -> 0.19"


def found(*lines: str) -> list[Finding]:
    return findings(StartupLog().feed(as_log(SERVING, lines)))


def at(minute: int, second: int = 0) -> datetime:
    return datetime(2026, 3, 1, 10, minute, second, tzinfo=UTC)


def line(minute: int, second: int, text: str) -> str:
    return f"[2026-03-01 10:{minute:02}:{second:02}] {text}"


def test_a_healthy_server_has_none() -> None:
    assert found(line(1, 0, OK)) == []


def test_failed_health_checks_begin_and_end() -> None:
    failed = [line(1, 10, HEALTH), line(1, 40, HEALTH), line(2, 10, HEALTH)]
    (going_on,) = found(*failed)
    assert (going_on.code, going_on.began_at, going_on.ended_at, going_on.count) == (
        Code.SERVING_HANG,
        at(1, 10),
        None,
        3,
    )
    (over,) = found(*failed, line(2, 31, OK), line(2, 40, OK))
    assert over.ended_at == at(2, 31)
    (again,) = found(*failed, line(2, 31, OK), line(3, 0, HEALTH))
    assert again.ended_at is None


def test_a_recovered_server_is_diagnosed_as_having_hung() -> None:
    log = StartupLog().feed(as_log(SERVING, [line(1, 10, HEALTH), line(1, 31, OK)]))
    diagnosis = diagnose(log)
    assert diagnosis is not None
    assert (diagnosis.code, log.reading.has_failed) == (Code.SERVING_HANG, False)
    assert "it is over" in diagnosis.summary


def test_three_retractions_within_minutes_are_a_storm() -> None:
    assert found(line(1, 0, RETRACT), line(1, 12, RETRACT)) == []
    (storm,) = found(line(1, 0, RETRACT), line(1, 12, RETRACT), line(1, 18, RETRACT))
    assert (storm.code, storm.began_at, storm.count) == (Code.KV_CACHE_RETRACT, at(1, 0), 3)


def test_what_all_ranks_say_at_once_is_one_retraction() -> None:
    ranks = [stamped(50, RETRACT, rank=f"TP{rank}") for rank in range(16)]
    assert found(*ranks) == []


def test_retractions_far_apart_are_no_storm() -> None:
    assert found(*(line(minute, 0, RETRACT) for minute in range(1, 40, 5))) == []


def test_a_storm_ends_with_silence() -> None:
    storm = (line(1, 0, RETRACT), line(1, 12, RETRACT), line(1, 18, RETRACT))
    (over,) = found(*storm, line(9, 0, "Decode batch, #running-req: 1, #token: 9, #queue-req: 0"))
    assert over.ended_at == at(1, 18)


def test_transfers_that_fail_between_a_pair() -> None:
    (finding,) = found(
        line(1, 0, "Decode transfer failed for request rank=0 decode_req.req.rid='a' with exception KVTr")
    )
    assert finding.code is Code.PD_TRANSFER_FAILURE


def test_an_xid_in_the_log_is_the_weightiest() -> None:
    xid = "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    application = "NVRM: Xid (PCI:0000:05:00): 13, pid=1, Graphics Exception"
    assert found(application) == []
    assert [finding.code for finding in found(line(1, 0, HEALTH), xid)] == [Code.GPU_HARDWARE_ERROR, Code.SERVING_HANG]


def decode(second: int, length: str) -> str:
    return line(
        1, second, f"Decode batch, #running-req: 1, #token: 9, accept len: {length}, accept rate: 0.20, #queue-req: 0"
    )


def test_speculation_that_accepts_nothing_is_ineffective_after_200_steps() -> None:
    assert found(*(decode(second, "1.00") for second in range(4))) == []
    (finding,) = found(*(decode(second, "1.00") for second in range(9)))
    assert (finding.code, finding.began_at, finding.count) == (Code.SPECULATION_INEFFECTIVE, at(1, 0), 9)
    assert finding.detail == "accept length 1.00 over about 360 tokens (360 verify steps)"
    diagnosis = diagnose(StartupLog().feed(as_log(SERVING, [decode(second, "1.00") for second in range(9)])))
    assert diagnosis is not None
    assert diagnosis.summary.endswith(finding.detail)
    assert (
        found(*(decode(second, "1.00") for second in range(9)), *(decode(20 + second, "2.75") for second in range(9)))
        == []
    )


def test_an_ineffective_speculation_is_told_in_the_time_of_the_node() -> None:
    log = StartupLog(utc_offset_s=7_200).feed(as_log(SERVING, [decode(second, "1.00") for second in range(9)]))
    assert [finding.began_at for finding in findings(log)] == [at(1, 0) - timedelta(hours=2)]


def test_few_steps_are_no_proof_however_many_lines_tell_of_them() -> None:
    lines = as_log(SERVING, [decode(second, "1.00") for second in range(9)])
    assert findings(StartupLog(decode_log_interval=1).feed(lines)) == []


def test_speculation_that_hardly_accepts_anything_is_slow() -> None:
    (finding,) = found(*(decode(second, "1.15") for second in range(25)))
    assert finding.code is Code.SPECULATIVE_SLOW
    assert found(*(decode(second, "1.76") for second in range(25))) == []


def test_a_server_without_speculation_says_nothing_of_it() -> None:
    assert found(*(line(1, second, "Decode batch. #running-req: 1, #queue-req: 0") for second in range(30))) == []


def test_a_complaint_that_was_over_begins_anew() -> None:
    """The health checks failed in the morning and healed; what fails in the evening began in the evening."""
    failed = [line(1, 10, HEALTH), line(1, 40, HEALTH), line(1, 50, OK)]
    (again,) = found(*failed, line(50, 0, HEALTH), line(50, 30, HEALTH))
    assert (again.began_at, again.ended_at, again.count) == (at(50), None, 2)


def test_one_retraction_long_after_a_storm_is_none() -> None:
    storm = [line(1, second, RETRACT) for second in (0, 12, 18)]
    assert found(*storm, line(50, 0, RETRACT)) == []
    (again,) = found(*storm, *(line(50, second, RETRACT) for second in (0, 12, 18)))
    assert (again.began_at, again.ended_at) == (at(50), None)
