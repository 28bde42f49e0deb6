"""Questions about earlier starts: how long their phases took, and how launches of a server ended."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, func
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.db.tables import Launch, LaunchPhase, Operation, Transition
from service.servers.operation import OperationKind
from service.servers.progress import History, PhaseSample
from service.servers.states import Reason, State

RECENT_LAUNCHES = 30
POLICY_ACTOR = "policy"


async def history_of(session: AsyncSession, launch: Launch) -> History:
    """Return what earlier starts teach about this one: of its profile on its node, then of its model on its GPUs.

    A version of the profile that had another model teaches nothing.
    """
    same_model = col(Launch.model_path) == launch.model_path
    of_profile = (col(Launch.profile_id) == launch.profile_id, col(Launch.node_id) == launch.node_id, same_model)
    same_gpu = col(Launch.gpu_name).is_not_distinct_from(launch.gpu_name)
    of_model = (same_model, same_gpu)
    return History(
        profile_on_node=await _samples(session, launch, of_profile),
        model_on_gpu_type=await _samples(session, launch, of_model),
    )


async def phases_of(session: AsyncSession, launch_ids: Sequence[str]) -> tuple[PhaseSample, ...]:
    """Return the stays of launches in the given order of launches, each launch's in their own order."""
    query = select(LaunchPhase).where(col(LaunchPhase.launch_id).in_(launch_ids)).order_by(col(LaunchPhase.position))
    by_launch: dict[str, list[PhaseSample]] = {launch_id: [] for launch_id in launch_ids}
    for row in (await session.execute(query)).scalars():
        by_launch[row.launch_id].append(
            PhaseSample(row.launch_id, row.phase, row.duration_s, row.total, row.has_ended_well)
        )
    return tuple(sample for launch_id in launch_ids for sample in by_launch[launch_id])


async def ready_launches_of_profile(
    session: AsyncSession, profile_id: str, *, node_id: str | None, limit: int
) -> Sequence[Launch]:
    """Return the newest launches of a profile that became ready, newest first."""
    query = select(Launch).where(
        col(Launch.profile_id) == profile_id, col(Launch.ready_at).is_not(None), ~col(Launch.is_adopted)
    )
    if node_id is not None:
        query = query.where(col(Launch.node_id) == node_id)
    return (await session.execute(query.order_by(col(Launch.id).desc()).limit(limit))).scalars().all()


async def recent_failures(session: AsyncSession, server_id: str) -> Sequence[Launch]:
    """Return the recent launches of a server that ended in failure, newest first."""
    query = select(Launch).where(col(Launch.server_id) == server_id).order_by(col(Launch.id).desc())
    launches = (await session.execute(query.limit(RECENT_LAUNCHES))).scalars().all()
    failed = select(col(Transition.launch_id)).where(
        col(Transition.server_id) == server_id,
        col(Transition.after) == State.FAILED.value,
        col(Transition.launch_id).in_([launch.id for launch in launches]),
    )
    ids = set((await session.execute(failed)).scalars())
    return [launch for launch in launches if launch.id in ids]


async def earlier_launches(session: AsyncSession, launch: Launch) -> Sequence[Launch]:
    """Return the launches of the same server before this one, newest first."""
    query = select(Launch).where(col(Launch.server_id) == launch.server_id, col(Launch.id) < launch.id)
    query = query.order_by(col(Launch.id).desc()).limit(RECENT_LAUNCHES)
    return (await session.execute(query)).scalars().all()


async def policy_restarts(session: AsyncSession, server_id: str, since: datetime) -> list[datetime]:
    """Return when policies restarted a server since an instant."""
    query = select(col(Operation.created_at)).where(
        col(Operation.server_id) == server_id,
        col(Operation.kind) == OperationKind.RESTART,
        col(Operation.actor) == POLICY_ACTOR,
        col(Operation.created_at) >= since,
    )
    return list((await session.execute(query)).scalars())


async def hang_answered_at(session: AsyncSession, launch_id: str) -> datetime | None:
    """Return when a policy last decided what follows a suspected hang of a launch; None if none did."""
    query = select(func.max(col(Transition.at))).where(
        col(Transition.launch_id) == launch_id, col(Transition.reason) == Reason.SUSPECTED_HUNG
    )
    return (await session.execute(query)).scalar_one()


async def _samples(
    session: AsyncSession, launch: Launch, where: tuple[ColumnElement[bool], ...]
) -> tuple[PhaseSample, ...]:
    query = (
        select(col(Launch.id))
        .where(*where, col(Launch.id) != launch.id, col(Launch.ready_at).is_not(None))
        .order_by(col(Launch.id).desc())
        .limit(RECENT_LAUNCHES)
    )
    return await phases_of(session, list((await session.execute(query)).scalars()))
