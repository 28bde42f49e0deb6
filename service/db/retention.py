"""What history is old enough to go, a few rows at a time; what is current or referred to is never among it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, func, or_, true, update
from sqlalchemy import select as select_columns
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, aliased
from sqlmodel import col, select

from service.benchmarks.runs import RunSource, RunState
from service.db.benchmark_tables import Baseline, BenchmarkFile, BenchmarkRun
from service.db.event_tables import Event, WebhookDelivery
from service.db.fields import Table
from service.db.starts import RECENT_LAUNCHES
from service.db.tables import (
    AcceptanceSample,
    Finding,
    IdempotencyRecord,
    Launch,
    LaunchPhase,
    Node,
    Operation,
    Server,
    Transition,
)
from service.nodes.contact import Contact
from service.servers.event import DeliveryState
from service.servers.operation import OperationState

_CURRENT = (
    select(col(Server.launch_id)).where(col(Server.deleted_at).is_(None), col(Server.launch_id).is_not(None)).distinct()
)
"""The launch of each server: the one that runs, or the last one."""


@dataclass(frozen=True, slots=True)
class History:
    """One kind of history: its table and key, when a row became history, and which rows may go at all.

    `is_in_order`: the rows came in the order of their times, so all below an old one are old.
    """

    name: str
    table: type[Table]
    key: Mapped[Any]
    at: Mapped[Any]
    may_go: Callable[[], ColumnElement[bool]] = true
    batch: int = 500
    is_counted: bool = True
    is_in_order: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """Rows that are older than an instant go, and those below a key: the oldest of too many."""

    before: datetime
    floor: Any = None


@dataclass(slots=True)
class OldFiles:
    """What has directories on a node that may go: ended launches, and ended runs of benchmarks with their clients'."""

    launches: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)


def _of_no_current_launch(launch_id: Mapped[Any]) -> ColumnElement[bool]:
    return or_(launch_id.is_(None), launch_id.not_in(_CURRENT))


TRANSITIONS = History(
    "transitions",
    Transition,
    col(Transition.id),
    col(Transition.at),
    lambda: _of_no_current_launch(col(Transition.launch_id)),
)
EVENTS = History("events", Event, col(Event.id), col(Event.at), is_in_order=True)
FINDINGS = History(
    "findings", Finding, col(Finding.id), col(Finding.ended_at), lambda: col(Finding.ended_at).is_not(None)
)
OPERATIONS = History(
    "operations",
    Operation,
    col(Operation.id),
    col(Operation.ended_at),
    lambda: and_(
        col(Operation.state) != OperationState.RUNNING,
        _of_no_current_launch(col(Operation.launch_id)),
    ),
)
SAMPLES = History(
    "acceptance_samples",
    AcceptanceSample,
    col(AcceptanceSample.id),
    col(AcceptanceSample.at),
    lambda: col(AcceptanceSample.launch_id).not_in(_CURRENT),
)
DELIVERIES = History(
    "webhook_deliveries",
    WebhookDelivery,
    col(WebhookDelivery.id),
    col(WebhookDelivery.created_at),
    lambda: col(WebhookDelivery.state) != DeliveryState.PENDING,
)
ANSWERS = History(
    "remembered_answers",
    IdempotencyRecord,
    col(IdempotencyRecord.id),
    col(IdempotencyRecord.created_at),
    is_counted=False,
)
RESULT_FILES = History(
    "result_files",
    BenchmarkFile,
    col(BenchmarkFile.id),
    col(BenchmarkRun.created_at),
    lambda: and_(
        col(BenchmarkRun.state) != RunState.RUNNING,
        col(BenchmarkFile.run_id).not_in(select(col(Baseline.run_id))),
    ),
    batch=10,
    is_counted=False,
)


async def floor_of(session: AsyncSession, kind: History, keep_rows: int) -> Any:
    """Return the key below which rows are too many; None when there are not."""
    query = select(kind.key).order_by(kind.key.desc()).offset(keep_rows - 1).limit(1)
    return (await session.execute(query)).scalar_one_or_none() if kind.is_counted else None


async def old_rows(session: AsyncSession, kind: History, bound: Bound, *, after: Any) -> Sequence[Any]:
    """Return the keys of a few rows that may go, oldest first, from `after` on; the newest row of all always stays.

    With the newest row its number would go, which SQLite would then give to another.
    """
    newest = select(func.max(kind.key)).scalar_subquery()
    is_old: ColumnElement[bool] = kind.at < bound.before
    if kind.is_in_order:
        is_old = kind.key < select(func.max(kind.key)).where(kind.at < bound.before).scalar_subquery()
    if bound.floor is not None:
        is_old = or_(is_old, kind.key < bound.floor)
    query = _that_may_go(kind).where(is_old, kind.key < newest)
    if after is not None:
        query = query.where(kind.key > after)
    keys: Sequence[Any] = (await session.execute(query.order_by(kind.key).limit(kind.batch))).scalars().all()
    return keys


async def remove_rows(session: AsyncSession, kind: History, keys: Sequence[Any]) -> None:
    """Delete rows by key; not one that may go no more, as a delivery that was asked for again since the look."""
    going = _that_may_go(kind).where(kind.key.in_(keys))
    await session.execute(
        delete(kind.table).where(kind.key.in_(going)), execution_options={"synchronize_session": False}
    )


async def old_files(
    session: AsyncSession, before: datetime, *, keep_launches: int, per_node: int
) -> dict[str, OldFiles]:
    """Return, by node in contact, launches and runs whose directories may go, at most so many of each.

    Not that of the launch that runs or was the last of its server: its log is what an operator reads.
    """
    launches = (
        _of_nodes_in_contact(Launch)
        .join(Server, col(Server.id) == col(Launch.server_id))
        .where(_is_past(before, keep_launches))
    )
    runs = _of_nodes_in_contact(BenchmarkRun).where(
        col(BenchmarkRun.source) == RunSource.OWN,
        col(BenchmarkRun.state) != RunState.RUNNING,
        col(BenchmarkRun.ended_at) < before,
    )
    found: dict[str, OldFiles] = {}
    for launch_id, node_id in await session.execute(_first_of_each_node(launches, per_node)):
        found.setdefault(node_id, OldFiles()).launches.append(launch_id)
    for run_id, node_id in await session.execute(_first_of_each_node(runs, per_node)):
        found.setdefault(node_id, OldFiles()).runs.append(run_id)
    return found


async def note_files_removed(session: AsyncSession, gone: OldFiles, at: datetime) -> None:
    """Remember what has no directory on its node any more."""
    for query in (
        update(Launch).where(col(Launch.id).in_(gone.launches)).values(files_removed_at=at),
        update(BenchmarkRun).where(col(BenchmarkRun.id).in_(gone.runs)).values(files_removed_at=at),
    ):
        await session.execute(query, execution_options={"synchronize_session": False})


async def old_launches(session: AsyncSession, before: datetime, *, keep_launches: int, limit: int) -> Sequence[str]:
    """Return a few launches that may go, oldest first.

    Their directories are gone, or their node is. Not those that are the last of their server, that a benchmark
    measured, or from which the next start of their profile on their node is judged.
    """
    newer = aliased(Launch)
    newer_starts = (
        select(func.count())
        .select_from(newer)
        .where(
            col(newer.profile_id) == col(Launch.profile_id),
            col(newer.node_id) == col(Launch.node_id),
            col(newer.ready_at).is_not(None),
            col(newer.id) > col(Launch.id),
        )
        .correlate(Launch)
        .scalar_subquery()
    )
    measured = select(col(BenchmarkRun.id)).where(
        col(BenchmarkRun.server_id) == col(Launch.server_id), col(BenchmarkRun.launch_id) == col(Launch.id)
    )
    query = (
        select(col(Launch.id))
        .join(Server, col(Server.id) == col(Launch.server_id))
        .join(Node, col(Node.id) == col(Launch.node_id))
        .where(
            or_(col(Launch.files_removed_at).is_not(None), col(Node.deleted_at).is_not(None)),
            _is_past(before, keep_launches),
            or_(col(Launch.ready_at).is_(None), newer_starts >= RECENT_LAUNCHES),
            ~measured.exists(),
        )
        .order_by(col(Launch.id))
        .limit(limit)
    )
    return (await session.execute(query)).scalars().all()


async def old_samples_of(session: AsyncSession, launch_ids: Sequence[str], *, limit: int) -> Sequence[Any]:
    """Return the keys of a few samples of launches that go."""
    query = select(col(AcceptanceSample.id)).where(col(AcceptanceSample.launch_id).in_(launch_ids)).limit(limit)
    return (await session.execute(query)).scalars().all()


async def remove_launches(session: AsyncSession, launch_ids: Sequence[str]) -> None:
    """Delete launches with the times of their phases; their samples are gone before."""
    for query in (
        delete(LaunchPhase).where(col(LaunchPhase.launch_id).in_(launch_ids)),
        delete(Launch).where(col(Launch.id).in_(launch_ids)),
    ):
        await session.execute(query, execution_options={"synchronize_session": False})


def _that_may_go(kind: History) -> Select[Any]:
    """Select the keys of the rows that may go at all."""
    query: Select[Any] = select(kind.key).where(kind.may_go())
    if kind is RESULT_FILES:
        query = query.join(BenchmarkRun, col(BenchmarkRun.id) == col(BenchmarkFile.run_id))
    return query


def _of_nodes_in_contact(table: type[Launch] | type[BenchmarkRun]) -> Select[Any]:
    """Select what has directories on nodes in contact, each with its place among those of its node."""
    place = func.row_number().over(partition_by=col(table.node_id), order_by=col(table.id))
    query: Select[Any] = select_columns(col(table.id), col(table.node_id), place.label("place"))
    return query.join(Node, col(Node.id) == col(table.node_id)).where(
        col(table.files_removed_at).is_(None), col(Node.contact) == Contact.OK, col(Node.deleted_at).is_(None)
    )


def _first_of_each_node(query: Select[Any], per_node: int) -> Select[Any]:
    wanted = query.subquery()
    return select(wanted.c.id, wanted.c.node_id).where(wanted.c.place <= per_node).order_by(wanted.c.id)


def _is_past(before: datetime, keep_launches: int) -> ColumnElement[bool]:
    """Return what is true of a launch that ended long ago or is one of too many, and is not its server's last."""
    ended_at = func.coalesce(col(Launch.ended_at), col(Launch.created_at))
    return and_(
        col(Launch.id).not_in(_CURRENT),
        or_(ended_at < before, col(Launch.number) <= col(Server.launch_count) - keep_launches),
    )
