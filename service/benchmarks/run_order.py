"""In what order a run visits its points of load and repeats them."""

from dataclasses import dataclass

from service.benchmarks.workload import LoadPoint, Workload

MAX_REPEATS = 50


@dataclass(frozen=True, slots=True)
class Step:
    """One execution of the client: one repeat of one point."""

    position: int
    point: LoadPoint
    repeat_index: int


def run_order(workload: Workload, repeats: int) -> tuple[Step, ...]:
    """Return the steps of a run.

    Each repeat visits every point, every second one backwards: a machine that becomes slower or faster meanwhile then
    does so to all points alike, and no point has its repeats all at one time.
    """
    points = workload.points()
    visits = [
        (point, repeat) for repeat in range(repeats) for point in (reversed(points) if repeat % 2 else iter(points))
    ]
    return tuple(Step(position, point, repeat) for position, (point, repeat) in enumerate(visits))


def turns_before(*, is_first: bool, repeat_index: int) -> int:
    """Return how many whole repeats of the other of two runs come before this repeat: ABBAAB…, A is the first one."""
    is_ahead = is_first == (repeat_index % 2 == 0)
    return repeat_index if is_ahead else repeat_index + 1
