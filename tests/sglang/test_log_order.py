"""Exports that begin with the newest line are turned round, and their lines keep the numbers of the file."""

from service.sglang.failures import Code, diagnose
from service.sglang.log_order import is_newest_first, read_in_order
from service.sglang.phases import Phase
from tests.sglang.lines import INIT, SERVING, SRT, STARTS, hit

FAILED = (
    *STARTS[Phase.CAPTURING_GRAPHS],
    *hit(*INIT, f"{SRT}/model_executor/cuda_graph_runner.py capture", error="RuntimeError: Ninja is required to load"),
)


def test_a_log_in_order_is_left_alone() -> None:
    data = "\n".join(SERVING).encode()
    assert not is_newest_first(data)
    assert read_in_order(data).line_in_file(3) == 3


def test_ranks_that_write_a_little_out_of_order_do_not_turn_a_log_round() -> None:
    stamps = ("10:00:01", "10:00:02", "10:00:01", "10:00:03", "10:00:02", "10:00:04", "10:00:05")
    assert not is_newest_first("\n".join(f"[2026-03-01 {stamp} TP1] x" for stamp in stamps).encode())


def test_a_healthy_log_turned_round_is_ready() -> None:
    complete = read_in_order("\n".join(reversed(SERVING)).encode())
    assert (complete.log.reading.phase, complete.log.reading.is_ready) == (Phase.SERVING, True)


def test_lines_turned_round_one_by_one() -> None:
    data = "\n".join(reversed(FAILED)).encode()
    complete = read_in_order(data)
    diagnosis = diagnose(complete.log)
    assert diagnosis is not None
    assert (diagnosis.code, complete.log.reading.phase) == (Code.JIT_COMPILE_FAILURE, Phase.CAPTURING_GRAPHS)
    number = complete.line_in_file(diagnosis.evidence[0].line)
    assert data.split(b"\n")[number - 1] == b"RuntimeError: Ninja is required to load"


def test_records_turned_round_whole() -> None:
    """A collector's table has the newest record first, and the lines within a record in order."""
    records: list[list[str]] = []
    for line in FAILED:
        if line.startswith("[2026") or not records:
            records.append([])
        records[-1].append(line)
    data = "\n".join(line for record in reversed(records) for line in record).encode()
    complete = read_in_order(data)
    diagnosis = diagnose(complete.log)
    assert diagnosis is not None
    assert (diagnosis.code, complete.log.reading.phase) == (Code.JIT_COMPILE_FAILURE, Phase.CAPTURING_GRAPHS)
    number = complete.line_in_file(diagnosis.evidence[0].line)
    assert data.split(b"\n")[number - 1] == b"RuntimeError: Ninja is required to load"


def test_every_line_stamped_by_the_collector() -> None:
    stamped = [f"2026-03-01T10:00:{second:02}.000Z {line}" for second, line in enumerate(FAILED)]
    complete = read_in_order("\n".join(reversed(stamped)).encode())
    diagnosis = diagnose(complete.log)
    assert diagnosis is not None
    assert diagnosis.code is Code.JIT_COMPILE_FAILURE


def test_tracebacks_tell_the_order_where_stamps_hardly_do() -> None:
    failure = hit(*INIT, f"{SRT}/model_executor/cuda_graph_runner.py capture", error="RuntimeError: Ninja is required")
    assert not is_newest_first("\n".join(failure).encode())
    complete = read_in_order("\n".join(reversed(failure)).encode())
    diagnosis = diagnose(complete.log)
    assert diagnosis is not None
    assert (diagnosis.code, complete.log.reading.phase) == (Code.JIT_COMPILE_FAILURE, Phase.CAPTURING_GRAPHS)
