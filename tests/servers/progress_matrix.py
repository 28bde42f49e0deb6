"""Runs simulated starts through the verdict: the matrix of phases and mishaps, and sweeps over random starts.

The same steps as a watcher takes: what the policy decides comes first, then the verdict on the start.
"""

import random
from dataclasses import dataclass, replace
from enum import StrEnum

from service.servers.observation import (
    EffortFact,
    HealthFact,
    ListenerFact,
    ListenerOwner,
    Observation,
    ProcessFact,
    ProcessState,
)
from service.servers.progress import (
    Expected,
    History,
    Marks,
    Verdict,
    expected_from,
    judge,
    marks_from_record,
    marks_record,
)
from service.servers.states import State
from service.servers.supervision import Facts, decide
from service.sglang.phases import Phase
from service.sglang.startup_log import PhaseSpan
from tests.servers.progress_streams import BEGAN_AT, Start, at, frozen_start, moving_start, reading, warm_history

LOOKS_PER_DEADLINE = 60


class Mishap(StrEnum):
    """What happens to a start in the midst of a phase."""

    SLOW = "slow"
    """It reads four MiB each third of the deadline."""
    FROZEN = "frozen"
    CRASHED = "crashed"
    CONTACT_LOST = "contact_lost"
    """It moves on unseen; the connection comes back after three deadlines."""
    CONTACT_LOST_FROZEN = "contact_lost_frozen"
    """It freezes with the loss of contact, which lasts for three deadlines."""
    RESTARTED = "restarted"
    """It freezes, and half a deadline later the control plane is restarted, from a record of the marks."""
    RESTARTED_BARE = "restarted_bare"
    """The same, without a record."""


@dataclass(frozen=True, slots=True)
class Said:
    """From when on something is said: a verdict, or the state that the policy moved it to."""

    at_s: float
    what: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """What many random starts came to: seeds of false and missed verdicts, and how long detection took."""

    looks: int
    false: tuple[int, ...]
    missed: tuple[int, ...]
    detections: tuple["Detection", ...]


@dataclass(frozen=True, slots=True)
class Detection:
    """A frozen start that was found: how long after it froze, how late after it was due, by which deadline."""

    phase: Phase | None
    after_s: float
    late_s: float
    deadline_s: float
    is_talking: bool


def deadline_of(phase: Phase, expected: Expected) -> float:
    """Return the deadline that is in force when a phase was just entered."""
    return expected.of(phase).first_unit_deadline_s


def step_of(deadline_s: float) -> float:
    """Return how far the looks of a story lie apart."""
    return deadline_s / LOOKS_PER_DEADLINE


def story(phase: Phase, mishap: Mishap, expected: Expected) -> list[Said]:
    """Return what is said of a start that enters a phase at 0 s and then has a mishap; each change once."""
    deadline_s = deadline_of(phase, expected)
    marks = Marks.begin(at(-30)).fold(_look(phase, at_s=-20, entered=False)).fold(_look(phase, at_s=0))
    said: list[Said] = []
    for step in range(LOOKS_PER_DEADLINE * 5):
        now_s = step * step_of(deadline_s)
        marks, look, heard_s = _next(marks, phase, mishap, now_s, deadline_s)
        move = decide(_FACTS, look, at(now_s))
        what = str(move.after) if move else str(judge(marks, expected, at(now_s), heard_at=at(heard_s)).verdict)
        if not said or said[-1].what != what:
            said.append(Said(now_s, what))
    return said


def sweep(count: int, *, first_seed: int = 0) -> Sweep:
    """Return what `count` slow but moving and `count` frozen starts come to, half of them with warm earlier starts."""
    looks, false, missed, detections = 0, [], [], []
    for seed in range(first_seed, first_seed + count):
        expected = expected_from(warm_history(seed) if seed % 2 else History())
        count_here, hung_s = _verdicts(moving_start(seed), expected, seed)
        looks += count_here
        if hung_s is not None:
            false.append(seed)
        detection = _detection(frozen_start(seed), expected)
        if detection is None:
            missed.append(seed)
        else:
            detections.append(detection)
    return Sweep(looks, tuple(false), tuple(missed), tuple(detections))


_FACTS = Facts(State.STARTING, BEGAN_AT, started_at=BEGAN_AT, is_log_quiet=False, start_limit_s=None)


def _next(
    marks: Marks, phase: Phase, mishap: Mishap, now_s: float, deadline_s: float
) -> tuple[Marks, Observation, float]:
    """Return the marks after the look at an instant, that look, and when the node was last heard."""
    pace_s, step_s = deadline_s / 3, step_of(deadline_s)
    still, moving = _look(phase, at_s=now_s), _look(phase, at_s=now_s, reads=int(now_s / pace_s))
    is_apart = mishap in {Mishap.CONTACT_LOST, Mishap.CONTACT_LOST_FROZEN}
    if is_apart and deadline_s / 4 < now_s < deadline_s * 3.25:
        return marks, still, deadline_s / 4
    if is_apart and now_s - step_s < deadline_s * 3.25 <= now_s:
        marks = marks.watched_anew(at(now_s))
    match mishap:
        case Mishap.SLOW | Mishap.CONTACT_LOST:
            return marks.fold(moving), moving, now_s
        case Mishap.CRASHED if now_s >= pace_s:
            died = replace(still, process=ProcessFact(ProcessState.EXITED, pid=4711, exit_code=1))
            return marks, died, now_s
        case Mishap.RESTARTED | Mishap.RESTARTED_BARE if now_s - step_s < deadline_s / 2 <= now_s:
            marks = _reborn(marks, mishap, now_s)
    return marks.fold(still), still, now_s


def _reborn(marks: Marks, mishap: Mishap, now_s: float) -> Marks:
    if mishap is Mishap.RESTARTED:
        return marks_from_record(marks_record(marks), at=at(now_s))
    return Marks.begin(at(now_s))


def _look(phase: Phase, *, at_s: float, reads: int = 0, entered: bool = True) -> Observation:
    spans = [PhaseSpan(phase, at(0), None, None)] if entered else []
    return Observation(
        at=at(at_s),
        process=ProcessFact(ProcessState.RUNNING, pid=4711, member_count=10),
        listener=ListenerFact(ListenerOwner.NONE),
        effort=EffortFact(cpu_ticks=max(1, int(at_s * 100)), read_bytes=reads * 2**22 + 1, rss_mib=900),
        health=HealthFact(),
        log=reading(spans, line_count=10 if entered else 1, at=at(min(at_s, 0))),
    )


def _verdicts(start: Start, expected: Expected, seed: int) -> tuple[int, float | None]:
    """Return how many looks a start got, and when it was called hung; its connection is lost now and then."""
    rng = random.Random(seed)  # noqa: S311
    marks, looks, apart_until_s = Marks.begin(BEGAN_AT), 0, 0.0
    for now_s, look in start.looks(until_s=start.duration_s):
        if now_s < apart_until_s:
            continue
        if apart_until_s:
            marks, apart_until_s = _returned(marks, rng, now_s), 0.0
        marks = marks.fold(look)
        looks += 1
        if judge(marks, expected, at(now_s)).verdict is Verdict.SUSPECTED_HUNG:
            return looks, now_s
        if rng.random() < 0.002:
            apart_until_s = now_s + rng.uniform(10, 1_800)
    return looks, None


def _returned(marks: Marks, rng: random.Random, now_s: float) -> Marks:
    """Return the marks after a lost connection or a restart of the service."""
    match rng.randrange(3):
        case 0:
            return marks.watched_anew(at(now_s))
        case 1:
            return marks_from_record(marks_record(marks), at=at(now_s))
        case _:
            return Marks.begin(at(now_s))


def _detection(start: Start, expected: Expected) -> Detection | None:
    frozen_s = start.freezes_after_s or 0.0
    marks = Marks.begin(BEGAN_AT)
    for now_s, look in start.looks(until_s=frozen_s + 7_200):
        marks = marks.fold(look)
        judgement = judge(marks, expected, at(now_s))
        if judgement.verdict is Verdict.SUSPECTED_HUNG and now_s > frozen_s:
            late_s = (judgement.judged_at - judgement.hung_at).total_seconds()
            is_talking = start.chatter_every_s is not None
            return Detection(judgement.phase, now_s - frozen_s, late_s, judgement.deadline_s, is_talking=is_talking)
    return None
