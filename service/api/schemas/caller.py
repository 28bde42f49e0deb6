"""The caller as the API shows him."""

from pydantic import BaseModel, Field

from service.access.roles import Caller, Role
from service.clock import Instant
from service.settings import Access


class CallerPublic(BaseModel):
    """Who makes a request."""

    actor: str = Field(description="Stands with every transition and operation of his.", examples=["token:alice"])
    role: Role = Field(description="Each role may do what the one before it may: viewer, operator, admin.")
    expires_at: Instant | None = Field(description="From then on his token is refused; null: until it is revoked.")
    access: Access = Field(description="`open`: everybody on this machine is an admin, and needs no token.")


def caller_public(caller: Caller, access: Access) -> CallerPublic:
    """Return a caller as the API shows him."""
    return CallerPublic(actor=caller.actor, role=caller.role, expires_at=caller.expires_at, access=access)
