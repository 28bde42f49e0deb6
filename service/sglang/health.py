"""What the engine's answers to `GET /health` mean."""

from collections.abc import Mapping
from enum import StrEnum

HTTP_OK = 200
HTTP_UNAVAILABLE = 503
LIMIT_VARIABLE = "SGLANG_HEALTH_CHECK_TIMEOUT"
"""For so many whole seconds the engine waits for a token before it answers 503; 20 by default."""
LIMIT_MARGIN_S = 5.0
"""So much later than that an answer may come."""


class HealthAnswer(StrEnum):
    """What `GET /health` said the last time it was asked. Its body is empty whatever it says."""

    UNASKED = "unasked"
    REFUSED = "refused"
    """Nothing listens: normal until weights, KV pool and graphs are done, since the port is bound only then."""
    OK = "ok"
    UNAVAILABLE = "unavailable"
    """HTTP 503: warming, stalled for 20 s, or draining; the engine does not say which."""
    TIMED_OUT = "timed_out"
    UNEXPECTED = "unexpected"
    """Any other answer: not the engine that was launched, or a broken one."""


def health_answer(status: int | None, *, is_refused: bool, has_timed_out: bool) -> HealthAnswer:
    """Return the meaning of one answer; `status` is None when there was no HTTP answer (facts: SGLang §3.4)."""
    if is_refused:
        return HealthAnswer.REFUSED
    if has_timed_out:
        return HealthAnswer.TIMED_OUT
    if status == HTTP_OK:
        return HealthAnswer.OK
    return HealthAnswer.UNAVAILABLE if status == HTTP_UNAVAILABLE else HealthAnswer.UNEXPECTED


def health_deadline_s(environment: Mapping[str, str], usual_s: float) -> float:
    """Return how long to wait for an answer of an engine with this environment: longer than it waits for itself."""
    text = environment.get(LIMIT_VARIABLE, "").strip()
    return max(usual_s, int(text) + LIMIT_MARGIN_S) if text.isdecimal() else usual_s
