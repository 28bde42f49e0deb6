"""The one writer of events: each is written in the transaction of the change that it tells."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from service.db import outbox
from service.db.tables import Finding, Launch, Operation, Transition
from service.nodes.contact import Contact
from service.operations.event_documents import (
    DOCUMENTS,
    ContactChanged,
    Document,
    FindingTold,
    OperationTold,
    PhaseChanged,
    PolicyDecided,
    ServerMoved,
    VerdictChanged,
)
from service.servers.event import EventKind
from service.servers.states import State
from service.sglang.start_phases import PhaseSpan


def publish(  # noqa: PLR0913  what happened, to whom, when
    session: AsyncSession,
    kind: EventKind,
    *,
    node_id: str,
    server_id: str | None,
    launch_id: str | None,
    document: Document,
    at: datetime,
) -> None:
    """Tell an event with the caller's transaction: it is there when the change is, and not when that is undone.

    TypeError if the document is not the one of its kind. The session must come from `Database.write`.
    """
    if not isinstance(document, DOCUMENTS[kind]):
        raise TypeError(f"an event {kind} has another document than {type(document).__name__}")
    outbox.put(
        session,
        {
            "kind": kind,
            "node_id": node_id,
            "server_id": server_id,
            "launch_id": launch_id,
            "document": document.model_dump(mode="json"),
            "at": at,
        },
    )


def tell_transition(session: AsyncSession, transition: Transition) -> None:
    """Tell a transition of any subject."""
    kind, document = _of_transition(transition)
    publish(
        session,
        kind,
        node_id=transition.node_id,
        server_id=transition.server_id,
        launch_id=transition.launch_id,
        document=document,
        at=transition.at,
    )


def tell_phases(session: AsyncSession, launch: Launch, spans: Sequence[PhaseSpan], *, known: int, at: datetime) -> None:
    """Tell every stay in a phase of a start after the first `known` ones, which were told before."""
    for position in range(known, len(spans)):
        document = PhaseChanged(
            before=spans[position - 1].phase if position else None,
            after=spans[position].phase,
            position=position,
            started_at=spans[position].started_at,
        )
        publish(
            session,
            EventKind.PHASE_CHANGED,
            node_id=launch.node_id,
            server_id=launch.server_id,
            launch_id=launch.id,
            document=document,
            at=at,
        )


def tell_finding(session: AsyncSession, kind: EventKind, finding: Finding, *, at: datetime) -> None:
    """Tell that a finding began or ended; one of a node has no launch."""
    publish(
        session,
        kind,
        node_id=finding.node_id,
        server_id=finding.server_id,
        launch_id=finding.subject_id if finding.server_id else None,
        document=FindingTold.model_validate(finding.model_dump(include=set(FindingTold.model_fields))),
        at=at,
    )


def tell_operation(session: AsyncSession, kind: EventKind, operation: Operation, *, node_id: str, at: datetime) -> None:
    """Tell how far an operation has come."""
    problem = operation.problem or {}
    document = OperationTold(
        operation_id=operation.id,
        operation=operation.kind,
        state=operation.state,
        step=operation.step,
        actor=operation.actor,
        code=problem.get("code"),
        detail=problem.get("detail"),
    )
    publish(
        session,
        kind,
        node_id=node_id,
        server_id=operation.server_id,
        launch_id=operation.launch_id,
        document=document,
        at=at,
    )


def _of_transition(row: Transition) -> tuple[EventKind, Document]:
    match row.subject:
        case "server":
            return EventKind.SERVER_MOVED, ServerMoved(
                before=State(row.before),
                after=State(row.after),
                reason=row.reason,
                message=row.message,
                diagnosis=row.evidence.get("diagnosis"),
                actor=row.actor,
                operation_id=row.operation_id,
            )
        case "node":
            return EventKind.CONTACT_CHANGED, ContactChanged(
                before=Contact(row.before), after=Contact(row.after), code=row.evidence.get("code"), message=row.message
            )
        case "verdict":
            return EventKind.VERDICT_CHANGED, VerdictChanged(before=row.before, after=row.after, message=row.message)
        case "policy":
            return EventKind.POLICY_DECIDED, PolicyDecided(
                state=State(row.after), reason=row.reason, message=row.message
            )
        case _:
            raise ValueError(f"no event tells a transition of {row.subject!r}")
