"""The three roles, each of which may do all that the one before it may, and who makes a request."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """What somebody may do; the order of the members is the order of power."""

    VIEWER = "viewer"
    """Look at everything, wait, follow logs and events."""
    OPERATOR = "operator"
    """Write recipes, place, launch, stop, restart and remove servers, run checks and benchmarks."""
    ADMIN = "admin"
    """Decide which machines are reached and by whom: nodes, tokens, webhooks, and what is thrown away."""

    def covers(self, needed: "Role") -> bool:
        """Tell whether who has this role may do what needs the other."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request. `actor` stands in transitions and operations; `key` tells callers apart for ever."""

    actor: str
    key: str
    role: Role
    expires_at: datetime | None = None


ANYBODY = Caller(actor="open", key="open", role=Role.ADMIN)
"""Who calls while access is open: nobody is told from anybody."""
