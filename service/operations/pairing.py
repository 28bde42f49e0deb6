"""Two runs that take turns: the same workload on two servers, repeat by repeat, so that a drift hits both alike."""

from service.benchmarks.run_order import Step, turns_before
from service.benchmarks.runs import RunState
from service.benchmarks.workload import Workload
from service.db import benchmarks
from service.db.benchmark_tables import BenchmarkRun
from service.operations.control import Control

LOOK_AGAIN_S = 5.0
_PAIR = "pair"


def link(first: BenchmarkRun, second: BenchmarkRun) -> None:
    """Let two runs of the same workload and number of repeats take turns, in the caller's transaction."""
    for run, other, is_first in ((first, second, True), (second, first, False)):
        run.provenance = {**(run.provenance or {}), _PAIR: {"run_id": other.id, "is_first": is_first}}


async def is_its_turn(control: Control, run: BenchmarkRun, step: Step) -> bool:
    """Tell whether a run may take a step; when the other one comes first, wait a while for it before saying no.

    A run whose partner has ended, however it did, or was removed since, goes on by itself.
    """
    pair = (run.provenance or {}).get(_PAIR)
    if pair is None:
        return True
    seen = control.changes.count(pair["run_id"])
    async with control.database.read() as session:
        other = await session.get(BenchmarkRun, pair["run_id"])
        done = len(await benchmarks.list_results(session, [pair["run_id"]]))
    points = len(Workload.model_validate(run.workload).points())
    needed = turns_before(is_first=pair["is_first"], repeat_index=step.repeat_index)
    if other is None or other.state is not RunState.RUNNING or done // points >= needed:
        return True
    await control.changes.wait([pair["run_id"]], after=seen, timeout_s=LOOK_AGAIN_S)
    return False
