"""The steps from what is to what a fleet file says, and the words for them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from service.cli.differences import Change
from service.cli.files import Place


class Kind(StrEnum):
    """What a step is about."""

    NODE = "node"
    PROFILE = "profile"
    BENCHMARK = "benchmark"
    SERVER = "server"


class Action(StrEnum):
    """What a step does."""

    CREATE = "create"
    CHANGE = "change"
    TRUST = "trust"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    LAUNCH = "launch"
    RESTART = "restart"
    STOP = "stop"
    REPLACE = "replace"
    """Remove a server, after a proven stop where it runs, and place it again: a placement cannot be changed."""
    REMOVE = "remove"
    HELD = "held"
    """It would disturb a server that runs: that needs `--restart`."""
    REFUSED = "refused"
    """It cannot be done."""


SIGNS: Mapping[Action, str] = {
    Action.CREATE: "+",
    Action.REPLACE: "-/+",
    Action.REMOVE: "-",
    Action.HELD: "!",
    Action.REFUSED: "!",
}
"""The sign before a step; of all others it is ~."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step on one thing. `body` is what the service is sent, `words` say the step to people."""

    kind: Kind
    name: str
    action: Action
    words: str
    changes: tuple[Change, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict)
    runs: bool = False
    """The server is not at rest: it is stopped first."""
    launches: bool = False
    """The server is launched at the end."""
    override: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """Fingerprints of host keys that the file names."""
    place: Place = ()
    """Where in the file it is said."""

    @property
    def is_possible(self) -> bool:
        """Tell whether it is carried out."""
        return self.action not in {Action.HELD, Action.REFUSED}

    def lines(self) -> Iterator[str]:
        """Yield the step for people: what happens to what, then each field that differs."""
        yield f"{SIGNS.get(self.action, '~')} {self.kind} {self.name}: {self.words}"
        for change in self.changes:
            yield f"    {change}"

    def document(self) -> dict[str, Any]:
        """Return the step for programs."""
        return {
            "kind": self.kind,
            "name": self.name,
            "action": self.action,
            "words": self.words,
            "changes": [change.document() for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps in their order, and how many things are as the file says."""

    steps: tuple[Step, ...]
    same: int

    @property
    def is_complete(self) -> bool:
        """Tell whether the fleet is as the file says once all that is possible was done."""
        return all(step.is_possible for step in self.steps)
