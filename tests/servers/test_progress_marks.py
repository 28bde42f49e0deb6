"""Which facts are marks, which are not, and that their order within an instant does not matter."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.servers.observation import (
    EffortFact,
    HealthFact,
    ListenerFact,
    ListenerOwner,
    Observation,
    ProcessFact,
    ProcessState,
)
from service.servers.progress import Grade, Marks, MarkSource, marks_from_record, marks_record
from service.servers.progress.marks import REJOIN_S
from service.sglang.health import HealthAnswer
from service.sglang.metrics import EngineCounters
from service.sglang.phases import Phase
from service.sglang.startup_log import PhaseSpan, Progress
from tests.servers.progress_streams import BEGAN_AT, at, reading

MIB = 2**20
CAPTURING = PhaseSpan(Phase.CAPTURING_GRAPHS, at(0), None, Progress(3, 52, "graphs"))
WARMING = PhaseSpan(Phase.WARMING_UP, at(0), None, None)


def look(
    seconds: float,
    *,
    span: PhaseSpan = CAPTURING,
    lines: int = 20,
    members: int = 10,
    listener: ListenerOwner = ListenerOwner.NONE,
    answer: HealthAnswer = HealthAnswer.UNASKED,
    **effort: Any,
) -> Observation:
    usual = {"cpu_ticks": 1_000, "read_bytes": 900 * MIB, "rss_mib": 4_000, "gpu_memory_mib": 76_000}
    return Observation(
        at=at(seconds),
        process=ProcessFact(ProcessState.RUNNING, pid=4711, member_count=members),
        listener=ListenerFact(listener),
        effort=EffortFact(**{**usual, **effort}),
        health=HealthFact(answer),
        log=reading([span], line_count=lines, at=at(0)),
    )


START = Marks.begin(at(0)).fold(look(1))


@pytest.mark.parametrize(
    ("second", "source", "grade", "value"),
    [
        (
            look(60, span=replace(CAPTURING, progress=Progress(4, 52, "graphs"))),
            MarkSource.PROGRESS,
            Grade.DECISIVE,
            "4 of 52 graphs",
        ),
        (look(60, span=WARMING, lines=21), MarkSource.PHASE, Grade.DECISIVE, "warming_up"),
        (look(60, read_bytes=904 * MIB), MarkSource.BYTES_READ, Grade.DECISIVE, "904 MiB"),
        (look(60, gpu_memory_mib=76_004), MarkSource.GPU_MEMORY, Grade.DECISIVE, "76,004 MiB"),
        (look(60, listener=ListenerOwner.OURS), MarkSource.LISTENER, Grade.DECISIVE, "ours"),
        (look(60, answer=HealthAnswer.UNAVAILABLE), MarkSource.HEALTH, Grade.DECISIVE, "503"),
        (look(60, answer=HealthAnswer.OK), MarkSource.HEALTH, Grade.DECISIVE, "200"),
        (look(60, members=11), MarkSource.PROCESSES, Grade.SUPPORTING, "11"),
        (look(60, members=9), MarkSource.PROCESSES, Grade.SUPPORTING, "9"),
        (look(60, rss_mib=4_064), MarkSource.RESIDENT_MEMORY, Grade.SUPPORTING, "4,064 MiB"),
        (look(60, lines=21), MarkSource.LOG_LINES, Grade.TALK, "21"),
    ],
)
def test_each_source_makes_marks_of_its_grade(
    second: Observation, source: MarkSource, grade: Grade, value: str
) -> None:
    marks = START.fold(second)
    assert marks.last_mark is not None
    assert (marks.last_mark.source, marks.last_mark.value, marks.last_mark.at) == (source, value, at(60))
    assert marks.picture.last[grade] == marks.last_mark


@pytest.mark.parametrize(
    "second",
    [
        look(60, cpu_ticks=900_000),
        look(60, read_bytes=901 * MIB),
        look(60, read_bytes=None),
        look(60, gpu_memory_mib=None),
        look(60, gpu_memory_mib=0),
        look(60, gpu_memory_mib=76_001),
        look(60, rss_mib=4_010),
        look(60, rss_mib=100),
        look(60, cpu_ticks=0),
        look(60, listener=ListenerOwner.OTHER),
        look(60, answer=HealthAnswer.TIMED_OUT),
    ],
)
def test_what_a_frozen_start_shows_is_no_mark(second: Observation) -> None:
    marks = START.fold(second)
    assert marks.last_mark == START.last_mark
    again = marks.fold(look(61))
    assert again.last_mark == START.last_mark, "and neither is its coming back"


def test_a_spinning_core_is_kept_as_evidence_only() -> None:
    marks = START
    for second in range(2, 300):
        marks = marks.fold(look(second, cpu_ticks=1_000 + second * 800))
    assert marks.last_mark == START.last_mark
    assert marks.picture.spent.cpu_ticks == 299 * 800
    assert marks.still_since()[MarkSource.CPU] == at(299)
    assert marks.still_since()[MarkSource.BYTES_READ] == at(1), "since it is known"


def test_slow_bytes_add_up_to_a_mark() -> None:
    marks, moves = START, []
    for second in range(2, 200):
        marks = marks.fold(look(second, read_bytes=900 * MIB + second * 100_000))
        if marks.last_mark is not None and marks.last_mark.at == at(second):
            moves.append((second, marks.last_mark.gain))
    assert [second for second, _ in moves] == [42, 84, 126, 168]
    assert all(gain >= 4 * MIB for _, gain in moves)


def test_our_own_questions_are_no_progress() -> None:
    """Each /health that we send to a server that is warming up makes a line in its log."""
    marks = Marks.begin(at(0)).fold(look(1, span=WARMING, listener=ListenerOwner.OURS))
    first = marks.last_mark
    for second in range(2, 100):
        marks = marks.fold(look(second, span=WARMING, listener=ListenerOwner.OURS, lines=20 + second))
    assert marks.last_mark == first
    assert marks.still_since()[MarkSource.LOG_LINES] == at(99)
    assert marks.picture.spent.log_lines == 99


def test_tokens_are_progress() -> None:
    marks = START.fold(look(2), counters=EngineCounters(prompt_tokens=0, work_tokens=0))
    marks = marks.fold(look(60), counters=EngineCounters(prompt_tokens=0, work_tokens=6))
    assert marks.last_mark is not None
    assert (marks.last_mark.source, marks.last_mark.gain) == (MarkSource.COUNTERS, 6)


def test_health_that_comes_and_goes_is_no_progress() -> None:
    answers = [HealthAnswer.UNAVAILABLE, HealthAnswer.TIMED_OUT, HealthAnswer.UNAVAILABLE, HealthAnswer.UNEXPECTED]
    marks = START
    for second, answer in enumerate(answers, start=10):
        marks = marks.fold(look(second, answer=answer))
    assert marks.last_mark is not None
    assert marks.last_mark.at == at(10)


def test_older_facts_are_passed_over() -> None:
    marks = START.fold(look(60))
    assert marks.fold(look(30, read_bytes=2_000 * MIB)) == marks


def test_the_time_of_arrival_may_stand_for_the_nodes_clock() -> None:
    marks = START.fold(look(-5_000, read_bytes=2_000 * MIB), at=at(7))
    assert marks.last_mark is not None
    assert marks.last_mark.at == at(7)


def test_a_log_that_had_come_far_tells_when_by_itself() -> None:
    """A service that starts in the midst of it: the phase and the last graph are hours old, the rest is unknown."""
    old = PhaseSpan(Phase.CAPTURING_GRAPHS, at(-7_200), None, Progress(3, 52, "graphs"))
    seen = replace(look(1, span=old), log=reading([old], line_count=90, at=at(-7_000)))
    marks = Marks.begin(at(0)).fold(seen)
    assert marks.last_mark is not None
    assert (marks.last_mark.value, marks.last_mark.at) == ("3 of 52 graphs", at(-7_000))
    assert marks.phase_since == at(-7_200)
    assert marks.begun_at == at(0)


def test_a_log_that_is_read_anew_is_no_progress() -> None:
    marks = START
    loading = PhaseSpan(Phase.LOADING_WEIGHTS, at(-50), None, None)
    for lines in range(5, 20):
        marks = marks.fold(look(10 + lines, span=loading, lines=lines))
    assert (marks.last_mark, marks.phase) == (START.last_mark, Phase.CAPTURING_GRAPHS)
    marks = marks.fold(look(40, lines=20))
    assert (marks.last_mark, marks.phase_since) == (START.last_mark, START.phase_since)
    assert marks.fold(look(41, lines=21)).last_mark != START.last_mark


def test_an_observer_that_finds_its_processes_by_and_by_is_no_progress() -> None:
    marks = START.fold(look(300)).watched_anew(at(900))
    marks = marks.fold(look(901, members=1, read_bytes=20 * MIB, rss_mib=100, cpu_ticks=50, gpu_memory_mib=None))
    marks = marks.fold(look(903, members=6, read_bytes=600 * MIB, rss_mib=3_000, cpu_ticks=800))
    marks = marks.fold(look(901 + REJOIN_S, cpu_ticks=61_000))
    assert marks.last_mark == START.last_mark
    assert marks.picture.spent.cpu_ticks == 60_000, "what it used while it was out of sight is known all the same"


def test_a_sum_that_fell_goes_on_from_where_it_fell_to() -> None:
    """Children that ended unnoticed took their share with them."""
    marks = START.fold(look(300)).watched_anew(at(900)).fold(look(920, read_bytes=100 * MIB))
    assert marks.last_mark == START.last_mark
    marks = marks.fold(look(930, read_bytes=104 * MIB))
    assert marks.last_mark is not None
    assert (marks.last_mark.source, marks.last_mark.gain) == (MarkSource.BYTES_READ, 4 * MIB)


def test_cpu_time_that_was_not_read_yet_is_no_fall() -> None:
    marks = START.fold(look(30, cpu_ticks=0)).fold(look(40, cpu_ticks=1_007))
    assert marks.picture.spent.cpu_ticks == 7


def test_what_was_read_out_of_sight_is_progress() -> None:
    marks = START.fold(look(300)).watched_anew(at(900)).fold(look(920, read_bytes=5_000 * MIB))
    assert marks.last_mark is not None
    assert (marks.last_mark.source, marks.last_mark.at) == (MarkSource.BYTES_READ, at(920))


def test_marks_survive_as_json() -> None:
    marks = START.fold(look(40, read_bytes=950 * MIB)).fold(look(50, lines=25, members=12)).fold(look(60))
    again = marks_from_record(marks_record(marks), at=at(70))
    assert again.picture == marks.picture
    assert (again.begun_at, again.watched_from, again.lapsed_at) == (at(0), at(70), at(60))
    later = look(90, read_bytes=950 * MIB, lines=25, members=12)
    assert again.fold(later).last_mark == marks.fold(later).last_mark


EFFORTS = st.fixed_dictionaries(
    {
        "lines": st.integers(10, 30),
        "members": st.integers(8, 12),
        "cpu_ticks": st.integers(1, 5_000),
        "read_bytes": st.none() | st.integers(0, 2_000 * MIB),
        "rss_mib": st.integers(0, 9_000),
        "gpu_memory_mib": st.none() | st.integers(0, 80_000),
        "listener": st.sampled_from(ListenerOwner),
        "answer": st.sampled_from(HealthAnswer),
        "span": st.sampled_from(
            [CAPTURING, WARMING, replace(CAPTURING, progress=None), replace(CAPTURING, progress=Progress(9, 52, "x"))]
        ),
    }
)


@given(st.lists(EFFORTS, max_size=3), st.permutations(range(4)), st.lists(EFFORTS, min_size=4, max_size=4))
def test_the_order_of_facts_of_one_instant_does_not_matter(
    earlier: list[dict[str, Any]], order: list[int], now: list[dict[str, Any]]
) -> None:
    before = Marks.begin(BEGAN_AT)
    for second, facts in enumerate(earlier):
        before = before.fold(look(second, **facts))
    straight = shuffled = before
    for index in range(4):
        straight = straight.fold(look(50, **now[index]))
        shuffled = shuffled.fold(look(50, **now[order[index]]))
    assert straight.picture == shuffled.picture
    assert straight.picture.at - BEGAN_AT == timedelta(seconds=50)
