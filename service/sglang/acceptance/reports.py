"""What the engine tells of a stretch of decoding: how many verify steps, and how many tokens came of them."""

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Where an acceptance was read."""

    LOG = "log"
    """The decode lines: each tells of --decode-log-interval steps of the whole batch."""
    METRICS = "metrics"
    """The engine's /metrics: its gauges hold what the last decode line said."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """A sum over stretches of decoding. `reports`: how many times the engine told; `rated_steps`: steps with a rate.

    A verify step is one of one request. `tokens` came of them, bonus tokens included.
    """

    reports: int = 0
    verify_steps: float = 0.0
    tokens: float = 0.0
    rated_steps: float = 0.0
    rate_sum: float = 0.0

    @classmethod
    def told(cls, *, accept_length: float, accept_rate: float | None, verify_steps: float) -> "Decoding":
        """Return what one report tells of so many verify steps."""
        rated = verify_steps if accept_rate is not None else 0.0
        return cls(1, verify_steps, accept_length * verify_steps, rated, (accept_rate or 0.0) * verify_steps)

    @property
    def accept_length(self) -> float:
        """Return the tokens per verify step; 0 without one."""
        return self.tokens / self.verify_steps if self.verify_steps else 0.0

    @property
    def accept_rate(self) -> float | None:
        """Return the mean of the accept rates, as the version defines them; None where none was told."""
        return self.rate_sum / self.rated_steps if self.rated_steps else None

    def __add__(self, other: "Decoding") -> "Decoding":
        return Decoding(
            self.reports + other.reports,
            self.verify_steps + other.verify_steps,
            self.tokens + other.tokens,
            self.rated_steps + other.rated_steps,
            self.rate_sum + other.rate_sum,
        )

    def __sub__(self, other: "Decoding") -> "Decoding":
        return Decoding(
            self.reports - other.reports,
            self.verify_steps - other.verify_steps,
            self.tokens - other.tokens,
            self.rated_steps - other.rated_steps,
            self.rate_sum - other.rate_sum,
        )


@dataclass(frozen=True, slots=True)
class Quote:
    """What the engine wrote: a line of its log with its number, or its metrics with none."""

    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """Something new that was told: how much was decoded since, and how many requests ran then."""

    decoding: Decoding
    running_requests: int
    quote: Quote
