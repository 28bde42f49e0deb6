"""Events: the kinds of what is told to those who listen, and how far a telling has come."""

from enum import StrEnum


class EventKind(StrEnum):
    """What happened; the set is closed, and each kind has a document of its own."""

    SERVER_MOVED = "server_moved"
    """A server went from one state to another."""
    CONTACT_CHANGED = "contact_changed"
    """A node was reached, or lost, or lost for another cause."""
    VERDICT_CHANGED = "verdict_changed"
    """The state of a server stays; what is thought of it has changed."""
    POLICY_DECIDED = "policy_decided"
    """A policy answered a crash or a suspected hang."""
    PHASE_CHANGED = "phase_changed"
    """A start entered a phase; progress within it is no event."""
    FINDING_BEGAN = "finding_began"
    FINDING_ENDED = "finding_ended"
    OPERATION_BEGAN = "operation_began"
    OPERATION_ADVANCED = "operation_advanced"
    """An operation has come to its next step."""
    OPERATION_ENDED = "operation_ended"
    BENCHMARK_REGRESSED = "benchmark_regressed"
    """A run is worse than the baseline of its profile."""


class DeliveryState(StrEnum):
    """How far the delivery of an event to a webhook has come."""

    PENDING = "pending"
    """It was not sent yet, or is tried again."""
    DELIVERED = "delivered"
    """The receiver answered with 2xx."""
    FAILED = "failed"
    """It was given up."""
