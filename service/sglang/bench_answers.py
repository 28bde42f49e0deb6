"""Requests that the benchmark client counts as answered although no text came: the server refused them in the stream.

Seen with a real 0.5.23: an input longer than the context, or a request that is aborted, is answered on a stream with
status 200 and an error, or nothing, in it. The client takes that for a success, with all the tokens that it had asked
for and no first token: a run in which nothing was computed looks complete and very fast. Where the file has the
details, such requests are told by their first token, and the client's numbers made anew without them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Json = str | int | float | bool | None | Mapping[str, "Json"] | Sequence["Json"]

NO_TEXT = (
    "no text came: the server refused it inside the stream, which the client counts as an answer; its log says why"
)
_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True, slots=True)
class TrueAnswers:
    """What the details say of the requests that got text, when there are others; None is what they do not tell."""

    answered: int
    silent: int
    input_tokens: int | None
    output_tokens: int | None
    distributions: Mapping[str, Mapping[str, float]]
    """`ttft`, `tpot`, `itl` and `e2e` in ms, each by statistic, as the client makes them."""
    mean_concurrency: float | None


def true_answers(document: Mapping[str, Json]) -> TrueAnswers | None:
    """Return the numbers without the requests that got no text; None when there are none, or when nobody can tell."""
    first_s, errors = _numbers(document.get("ttfts")), document.get("errors")
    if first_s is None or not isinstance(errors, list) or len(errors) != len(first_s):
        return None
    counted = [index for index, error in enumerate(errors) if not error]
    answered = [index for index in counted if first_s[index] > 0]
    if len(answered) == len(counted):
        return None
    times = _Times.of(document, first_s, answered)
    return TrueAnswers(
        answered=len(answered),
        silent=len(counted) - len(answered),
        input_tokens=_sum(document.get("input_lens"), answered),
        output_tokens=_sum(document.get("output_lens"), answered),
        distributions=times.distributions(),
        mean_concurrency=_in_flight(times.whole_s, document.get("duration")),
    )


@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds of the requests that got text; without the gaps between tokens only the first ones are known."""

    first_s: Sequence[float]
    gaps_s: Sequence[Sequence[float]]
    tokens: Sequence[float]

    @classmethod
    def of(cls, document: Mapping[str, Json], first_s: Sequence[float], answered: Sequence[int]) -> "_Times":
        gaps = document.get("itls")
        rows = gaps if isinstance(gaps, list) and len(gaps) == len(first_s) else []
        read = [_numbers(rows[index]) or () for index in answered] if rows else []
        tokens = _numbers(document.get("output_lens")) or []
        counts = [tokens[index] for index in answered] if len(tokens) == len(first_s) else []
        return cls([first_s[index] for index in answered], read, counts)

    @property
    def whole_s(self) -> list[float]:
        """Return the latencies: the first token and the gaps after it."""
        return [first + sum(gaps) for first, gaps in zip(self.first_s, self.gaps_s, strict=False)]

    def distributions(self) -> dict[str, dict[str, float]]:
        both = zip(self.gaps_s, self.tokens, strict=False)
        per_token = [sum(gaps) / (tokens - 1) for gaps, tokens in both if tokens > 1]
        found = {
            "ttft": self.first_s,
            "tpot": per_token,
            "itl": [gap for gaps in self.gaps_s for gap in gaps],
            "e2e": self.whole_s,
        }
        return {name: _statistics(values) for name, values in found.items() if values}


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile of sorted values by linear interpolation, as the client computes its own."""
    place = (len(ordered) - 1) * share
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _in_flight(whole_s: Sequence[float], duration: Json) -> float | None:
    """Return how many requests ran at a time; None when the duration is not told, or is damage."""
    duration_s = _numbers([duration])
    if not whole_s or not duration_s or not duration_s[0]:
        return None
    mean = sum(whole_s) / duration_s[0]
    return mean if mean <= 1e15 else None  # noqa: PLR2004  no count is larger


def _statistics(values_s: Sequence[float]) -> dict[str, float]:
    ordered = sorted(1000 * value for value in values_s)
    mean = sum(ordered) / len(ordered)
    spread = math.sqrt(sum((value - mean) ** 2 for value in ordered) / len(ordered))
    shares = {name: percentile(ordered, share) for name, share in _PERCENTILES.items()}
    return {"mean": mean, "std": spread, **shares}


def _sum(values: Json, places: Sequence[int]) -> int | None:
    numbers = _numbers(values)
    if numbers is None or any(place >= len(numbers) for place in places):
        return None
    return int(sum(numbers[place] for place in places))


def _numbers(values: Json) -> list[float] | None:
    """Return a list of finite numbers that are not negative; None for anything else."""
    if not isinstance(values, list):
        return None
    read = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(read) != len(values) or not all(0 <= value <= 1e15 for value in read):  # noqa: PLR2004  NaN fails both
        return None
    return [float(value) for value in read]
