"""The only writer of state: it moves a server or the contact of a node, and records the transition with it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from sqlalchemy import CursorResult, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from service.db.tables import Node, Server, Transition
from service.errors import Overtaken, VigilError
from service.nodes.contact import Contact
from service.operations import events
from service.servers.states import Move, Reason, apply


async def record(
    session: AsyncSession,
    server: Server,
    move: Move,
    *,
    at: datetime,
    actor: str,
    operation_id: str | None = None,
) -> Transition:
    """Move a server and write the transition, in the caller's transaction.

    Guarded by the state and launch in `server` as it was loaded: if somebody else moved it since, nothing is
    written and Overtaken is raised. IllegalMove if the table has no such move. `server` is brought up to date.
    """
    change = apply(server.state, move, at)
    guard = (
        col(Server.id) == server.id,
        col(Server.state) == change.before,
        col(Server.launch_id).is_not_distinct_from(server.launch_id),
    )
    values = {"state": change.after, "state_since_at": at, "reason": change.reason, "message": change.message}
    result = cast(
        "CursorResult[Any]",
        await session.execute(
            update(Server).where(*guard).values(**values), execution_options={"synchronize_session": False}
        ),
    )
    if result.rowcount != 1:
        raise Overtaken(f"server {server.name} was moved by somebody else meanwhile")
    if server in session:
        await session.refresh(server)
    transition = Transition(
        subject="server",
        server_id=server.id,
        node_id=server.node_id,
        launch_id=server.launch_id,
        operation_id=operation_id,
        before=change.before,
        after=change.after,
        reason=change.reason,
        message=change.message,
        evidence=dict(change.evidence),
        actor=actor,
        at=at,
    )
    _write(session, transition)
    return transition


def note(
    session: AsyncSession,
    server: Server,
    reason: Reason,
    message: str,
    evidence: Mapping[str, object],
    *,
    at: datetime,
) -> None:
    """Write a transition that moves nothing: what a policy decided, with the state as it is."""
    _write(
        session,
        Transition(
            subject="policy",
            server_id=server.id,
            node_id=server.node_id,
            launch_id=server.launch_id,
            before=server.state,
            after=server.state,
            reason=reason,
            message=message,
            evidence=dict(evidence),
            actor="policy",
            at=at,
        ),
    )


def note_verdict(
    session: AsyncSession, server: Server, before: str, thought: Mapping[str, object], *, at: datetime
) -> None:
    """Write the transition from one verdict to another; the state stays."""
    _write(
        session,
        Transition(
            subject="verdict",
            server_id=server.id,
            node_id=server.node_id,
            launch_id=server.launch_id,
            before=before,
            after=str(thought["verdict"]),
            reason=Reason.VERDICT_CHANGED,
            message=str(thought["message"]),
            evidence=dict(thought),
            actor="watcher",
            at=at,
        ),
    )


async def record_contact(
    session: AsyncSession,
    node: Node,
    contact: Contact,
    *,
    at: datetime,
    error: VigilError | None = None,
) -> None:
    """Set a node's contact; a transition is written when it changes or when the code of its loss does.

    What more becomes known of the same loss, such as why it cannot be reached again, replaces the detail.
    """
    code, detail = (error.code, error.detail) if error else (None, None)
    current = await session.get(Node, node.id, populate_existing=True)
    if current is None or (current.contact, current.contact_code, current.contact_detail) == (contact, code, detail):
        return
    is_same_loss = current.contact is contact and current.contact_code == code
    before = current.contact
    await session.execute(
        update(Node)
        .where(col(Node.id) == node.id)
        .values(
            contact=contact,
            contact_since_at=current.contact_since_at if before is contact else at,
            contact_code=code,
            contact_detail=detail,
        ),
        execution_options={"synchronize_session": False},
    )
    if is_same_loss:
        return
    _write(
        session,
        Transition(
            subject="node",
            node_id=node.id,
            before=before,
            after=contact,
            reason=Reason.CONTACT_MADE if contact is Contact.OK else Reason.CONTACT_LOST,
            message=detail or "the node answers",
            evidence={"code": code} if code else {},
            actor="watcher",
            at=at,
        ),
    )


def _write(session: AsyncSession, transition: Transition) -> None:
    session.add(transition)
    events.tell_transition(session, transition)
