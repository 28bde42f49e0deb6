"""Runs compared with what was before: by themselves at their end, and for whoever asks."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from service.benchmarks.comparison import Comparison, Policy
from service.benchmarks.judging import Verdict
from service.benchmarks.noise import known_noise
from service.benchmarks.results import Result
from service.benchmarks.run_comparison import NO_NOISE_KNOWN, NoiseByKey, PointComparison, RunComparison, compare_runs
from service.benchmarks.runs import RunState
from service.db import benchmark_history, benchmarks
from service.db.benchmark_tables import Baseline, BenchmarkRun
from service.errors import InvalidInput
from service.logs import EventLog
from service.operations import events
from service.operations.event_documents import BenchmarkRegressed, RegressedPoint
from service.servers.event import EventKind

MAX_RUNS_A_SIDE = 50
MAX_RESULTS_A_SIDE = 1000
"""More are not needed for any verdict, and would be read into memory."""
MAX_EARLIER_RUNS = 40
"""So many of the newest tell how much a measurement varies by itself."""
_events = EventLog("benchmarks")
_COMPARED = frozenset({RunState.SUCCEEDED, RunState.DEGRADED})


async def conclude(
    session: AsyncSession,
    run_id: str,
    state: RunState,
    *,
    at: datetime,
    problem: Mapping[str, object] | None = None,
) -> bool:
    """End a run that is still running; False, and nothing is changed, if it has ended before.

    It is compared with the baseline of its profile and benchmark, if there is one, and a regression is told.
    """
    if not await benchmarks.end_run(session, run_id, state, at=at, problem=problem):
        return False
    run = await benchmarks.get_run(session, run_id)
    if state in _COMPARED and run.profile_id is not None:
        baseline = await benchmark_history.find_baseline(session, run.profile_id, run.benchmark)
        if baseline is not None and baseline.run_id != run.id:
            try:
                await _compare_with_baseline(session, run, baseline, at)
            except InvalidInput as error:  # too many results: the run ends all the same
                _events.warning("not_compared", run_id=run.id, baseline_run_id=baseline.run_id, detail=error.detail)
            except (ValueError, ArithmeticError):  # a fault in the statistics: so it does, and the log has the rest
                _events.failure("not_compared", run_id=run.id, baseline_run_id=baseline.run_id)
    return True


async def pin_baseline(
    session: AsyncSession, profile_id: str, run: BenchmarkRun, *, at: datetime, actor: str
) -> Baseline:
    """Make a run what later runs of its profile and benchmark are compared with.

    InvalidInput when the run is of another profile, or did not succeed.
    """
    if run.profile_id != profile_id:
        raise InvalidInput(f"run {run.id} is of another profile, or of none")
    if run.state is not RunState.SUCCEEDED:
        raise InvalidInput(f"run {run.id} is {run.state}: only one that succeeded can be a baseline")
    baseline = await benchmark_history.find_baseline(session, profile_id, run.benchmark)
    if baseline is None:
        baseline = Baseline(profile_id=profile_id, benchmark=run.benchmark or "", run_id=run.id, actor=actor, set_at=at)
        session.add(baseline)
    else:
        baseline.run_id, baseline.actor, baseline.set_at = run.id, actor, at
    await session.flush()
    return baseline


async def results_of(session: AsyncSession, run_ids: Sequence[str]) -> list[Result]:
    """Return the results of runs for one side of a comparison.

    NotFound for a run that is not there, InvalidInput for one that has no results, or when there are too many.
    """
    for run_id in run_ids:
        await benchmarks.get_run(session, run_id)
    rows = await benchmarks.list_results(session, run_ids)
    missing = set(run_ids) - {row.run_id for row in rows}
    if missing:
        raise InvalidInput(f"there are no results of {', '.join(sorted(missing))}")
    if len(rows) > MAX_RESULTS_A_SIDE:
        raise InvalidInput(f"a side has {len(rows)} results, more than {MAX_RESULTS_A_SIDE}")
    return [benchmarks.result_of(row) for row in rows]


async def noise_of(session: AsyncSession, baseline: Sequence[str], candidate: Sequence[str]) -> NoiseByKey:
    """Return how much what the baseline measured varies by itself, as far as earlier runs show it.

    Neither side counts: a change that is looked for may not pass for noise.
    """
    earlier = await benchmark_history.earlier_runs(session, baseline, without=candidate, limit=MAX_EARLIER_RUNS)
    return {key: known_noise(runs) for key, runs in earlier.items()}


async def compare_results(
    baseline: Sequence[Result],
    candidate: Sequence[Result],
    policy: Policy | None = None,
    *,
    noise: NoiseByKey = NO_NOISE_KNOWN,
) -> RunComparison:
    """Compare two sides apart from the event loop: hundreds of results cost tens of milliseconds."""
    return await asyncio.to_thread(compare_runs, baseline, candidate, policy=policy, noise=noise)


async def _compare_with_baseline(session: AsyncSession, run: BenchmarkRun, baseline: Baseline, at: datetime) -> None:
    first = await results_of(session, [baseline.run_id])
    second = await results_of(session, [run.id])
    made = await compare_results(first, second, noise=await noise_of(session, [baseline.run_id], [run.id]))
    run.comparison = _document(made, baseline.run_id, at)
    await session.flush()
    if made.verdict is Verdict.REGRESSED:
        tell_regression(session, run, made, at=at)


def tell_regression(session: AsyncSession, run: BenchmarkRun, made: RunComparison, *, at: datetime) -> None:
    """Tell, with the caller's transaction, that a run is worse than its baseline."""
    worse = [point for point in made.points if point.comparison.verdict is Verdict.REGRESSED]
    document = BenchmarkRegressed(
        run_id=run.id,
        baseline_run_id=(run.comparison or {})["baseline_run_id"],
        profile_id=run.profile_id,
        benchmark=run.benchmark,
        points=[RegressedPoint.model_validate(_point(point)) for point in worse],
    )
    events.publish(
        session,
        EventKind.BENCHMARK_REGRESSED,
        node_id=run.node_id or "",
        server_id=run.server_id,
        launch_id=run.launch_id,
        document=document,
        at=at,
    )


def _document(made: RunComparison, baseline_run_id: str, at: datetime) -> dict[str, Any]:
    """Return what a run keeps of its comparison: short; the whole is computed anew whenever it is asked for."""
    return {
        "baseline_run_id": baseline_run_id,
        "verdict": str(made.verdict),
        "compared_at": at.isoformat(),
        "points": [
            {
                **_point(point),
                "verdict": str(point.comparison.verdict),
                "reasons": list(point.comparison.reasons),
            }
            for point in made.points
        ],
        "only_baseline": list(made.only_baseline),
        "only_candidate": list(made.only_candidate),
    }


def _point(point: PointComparison) -> dict[str, Any]:
    comparison = point.comparison
    primary = comparison.metrics[0]
    return {
        "load": point.load,
        "metric": primary.metric,
        "unit": primary.unit,
        "baseline": primary.baseline_mean,
        "candidate": primary.candidate_mean,
        "ratio": primary.ratio,
        "accept_length": _accept_length(comparison),
    }


def _accept_length(comparison: Comparison) -> dict[str, float | None] | None:
    """Return the accept lengths of both sides: the usual suspect where speculation is on."""
    for value in comparison.context:
        if value.metric == "accept_length":
            return {"baseline": value.baseline, "candidate": value.candidate}
    return None
