"""The history of an acceptance: at most one sample a minute, and none for a minute without a verify step."""

from dataclasses import dataclass
from datetime import datetime

from service.sglang.acceptance.reports import Decoding, Source

SAMPLE_EVERY_S = 60.0
ENOUGH_STEPS = 200
"""A window of so many verify steps need not last a minute: the first sample of a load is seen early."""
KEPT_SAMPLES = 2_000
"""Of one launch. When it has more, the older half is merged in pairs: what is long ago is told more coarsely."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was decoded in the `window_s` before `at`. `running_requests`: the most that were seen at once."""

    at: datetime
    window_s: float
    source: Source
    decoding: Decoding
    running_requests: int


def merged(older: Sample, newer: Sample) -> Sample:
    """Return two samples as one; what was not sampled between them counts for neither."""
    return Sample(
        newer.at,
        older.window_s + newer.window_s,
        newer.source,
        older.decoding + newer.decoding,
        max(older.running_requests, newer.running_requests),
    )
