"""What an engine version calls its accept rate: it counts the bonus token up to 0.5.10, and not from 0.5.16 on.

The accept length is the same in all versions: tokens per verify step, the bonus token included, so 1.00 means that no
draft token was accepted (facts: SGLang §7.2; read in 0.5.10.post1, 0.5.16 and 0.5.23).
"""

from enum import StrEnum

from service.sglang.releases import V0_5_2, V0_5_6, V0_5_10, V0_5_16
from service.sglang.versions import parse_version


class RateDefinition(StrEnum):
    """How a version divides; n is --speculative-num-draft-tokens."""

    WITH_BONUS = "with_bonus"
    """(accepted draft tokens + bonus tokens) / (verify steps x n): 1/n when nothing is accepted."""
    DRAFTS_ONLY = "drafts_only"
    """Accepted draft tokens / (verify steps x (n - 1)): 0 when nothing is accepted."""
    UNKNOWN = "unknown"
    """A version that was not read: judge it by its accept length."""
    NONE = "none"
    """The version tells no accept rate."""


def rate_definition(engine_version: str | None) -> RateDefinition:
    """Return what the accept rate means that this version logs and exports."""
    version = parse_version(engine_version)
    if version is None:
        return RateDefinition.UNKNOWN
    if version >= V0_5_16:
        return RateDefinition.DRAFTS_ONLY
    if version > V0_5_10:
        return RateDefinition.UNKNOWN
    if version >= V0_5_6:
        return RateDefinition.WITH_BONUS
    return RateDefinition.UNKNOWN if version > V0_5_2 else RateDefinition.NONE
