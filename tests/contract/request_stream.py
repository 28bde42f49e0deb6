"""A stream of changes with idempotency keys, sent sixteen at a time to a service that is killed again and again."""

import random
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.contract.vigil import Vigil

AT_ONCE = 16
PATIENCE_S = 90


@dataclass(frozen=True, slots=True)
class Change:
    """One request that changes something, with its key."""

    key: str
    method: str
    path: str
    body: dict[str, Any] | None = None
    hang_ups_s: Sequence[float] = ()
    """After so long the caller hangs up, the first times."""


@dataclass(slots=True)
class Outcome:
    """What became of a change."""

    answer: httpx2.Response | None = None
    lost: int = 0
    """How many answers were not received."""
    was_done_unseen: bool = False
    """It had taken effect, and the caller had not been told."""


@dataclass(slots=True)
class Sender:
    """Sends changes until each is answered; who gets no answer waits for the service and sends again."""

    vigil: Vigil
    is_up: threading.Event = field(default_factory=threading.Event)
    answered: int = 0

    def send_all(self, changes: Sequence[Change]) -> dict[str, Outcome]:
        """Send changes, sixteen at a time; returns the outcome of each by its key."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return dict(zip([change.key for change in changes], pool.map(self.send, changes), strict=True))

    def send(self, change: Change) -> Outcome:
        """Send one change until it is answered."""
        outcome = Outcome()
        deadline = time.monotonic() + PATIENCE_S
        while outcome.answer is None:
            assert self.is_up.wait(PATIENCE_S), "the service did not come back"
            assert time.monotonic() < deadline, f"no answer to {change}"
            try:
                patience = change.hang_ups_s[outcome.lost : outcome.lost + 1]
                outcome.answer = self.once(change, patience_s=patience[0] if patience else PATIENCE_S)
            except httpx2.HTTPError:
                outcome.lost += 1
                time.sleep(0.02)
        outcome.was_done_unseen = bool(outcome.lost) and "idempotency-replayed" in outcome.answer.headers
        self.answered += 1
        return outcome

    def once(self, change: Change, *, patience_s: float = PATIENCE_S) -> httpx2.Response:
        """Send one change once, on a connection of its own."""
        headers = {**self.vigil.http.headers, "Idempotency-Key": change.key}
        with httpx2.Client(base_url=self.vigil.url, headers=headers, timeout=patience_s, trust_env=False) as http:
            return http.request(change.method, f"/api/v1{change.path}", json=change.body)

    def kill_at(self, marks: Iterable[int], dice: random.Random) -> None:
        """Kill the service and start it again each time so many changes are answered, at no certain moment."""
        for mark in marks:
            deadline = time.monotonic() + PATIENCE_S
            while self.answered < mark:
                assert time.monotonic() < deadline, f"only {self.answered} of {mark} are answered"
                time.sleep(0.002)
            time.sleep(dice.uniform(0, 0.05))
            self.is_up.clear()
            self.vigil.kill()
            self.vigil.start()
            self.is_up.set()
