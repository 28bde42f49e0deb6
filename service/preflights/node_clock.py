"""How far a node's clock is from the control plane's, as near as one question and its answer can tell."""

from service.preflights.conditions import LaunchConditions
from service.preflights.node_wish import NodeWish
from service.sglang.checks import Check, CheckCode, Outcome, skipped

SKEW_LIMIT_S = 2.0
"""Beyond it the instants of a start, its log lines and its benchmarks do not fit together any more."""
_REMEDY = "let the node and this machine follow a time server: `chronyc tracking` or `timedatectl` show whether they do"


def check_clock(conditions: LaunchConditions, wish: NodeWish) -> Check:
    """Bound the skew from both sides: the node looked after it was asked, and was done before its answer was here.

    It warns when even the nearest bound is beyond SKEW_LIMIT_S, and cannot be judged when only one of them is.
    """
    least, most = skew_bounds_s(conditions, wish)
    way_s = round(most - least, 3)
    facts = {"skew_least_s": round(least, 3), "skew_most_s": round(most, 3)}
    told = f"between {least:+.2f} s and {most:+.2f} s; the way there and back took {way_s:.2f} s"
    if max(abs(least), abs(most)) <= SKEW_LIMIT_S:
        return Check(CheckCode.NODE_CLOCK, Outcome.PASS, f"the node's clock differs by {told}", None, facts)
    if least <= SKEW_LIMIT_S and most >= -SKEW_LIMIT_S:
        return skipped(CheckCode.NODE_CLOCK, f"the answer was too slow to tell the node's clock: it differs by {told}")
    way = "ahead" if least > 0 else "behind"
    return Check(CheckCode.NODE_CLOCK, Outcome.WARN, f"the node's clock is {way}: it differs by {told}", _REMEDY, facts)


def skew_bounds_s(conditions: LaunchConditions, wish: NodeWish) -> tuple[float, float]:
    """Return the least and the most by which the node's clock may be ahead; below zero it is behind."""
    bounds = (
        (conditions.ended_at - wish.answered_at).total_seconds(),
        (conditions.began_at - wish.asked_at).total_seconds(),
    )
    return min(bounds), max(bounds)
