"""Operations and transitions as the API shows them."""

from typing import Any

from pydantic import BaseModel, Field

from service.api.schemas.common import OperationProblem
from service.clock import Instant
from service.db.tables import Operation, Transition
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import Reason


class OperationPublic(BaseModel):
    """An accepted request that takes time."""

    id: str
    kind: OperationKind
    server: str
    launch_id: str | None
    state: OperationState
    step: OperationStep
    actor: str
    problem: OperationProblem | None = Field(description="Why it failed; while it runs, what stands in its way.")
    created_at: Instant
    ended_at: Instant | None


class TransitionPublic(BaseModel):
    """What changed from what to what, why, when, by whom, on what evidence."""

    id: int
    subject: str
    server_id: str | None
    node_id: str
    launch_id: str | None
    operation_id: str | None
    before: str
    after: str
    reason: Reason
    message: str
    evidence: dict[str, Any]
    actor: str
    at: Instant


def operation_public(operation: Operation, server: str) -> OperationPublic:
    """Return an operation as the API shows it."""
    return OperationPublic.model_validate({**operation.model_dump(), "server": server})


def transition_public(transition: Transition) -> TransitionPublic:
    """Return a transition as the API shows it."""
    return TransitionPublic.model_validate(transition.model_dump())
