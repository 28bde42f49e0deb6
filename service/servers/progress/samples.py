"""What is kept of earlier starts: how long each stay in a phase took, and whose starts are comparable."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.sglang.phases import Phase


class HistoryLevel(StrEnum):
    """Whose earlier starts a number was learned from."""

    PROFILE_ON_NODE = "profile_on_node"
    """The same profile on the same node."""
    MODEL_ON_GPU_TYPE = "model_on_gpu_type"
    """The same model on GPUs of the same type, whatever profile and node."""


@dataclass(frozen=True, slots=True)
class PhaseSample:
    """One stay in a phase of an earlier start; a start may stay in a phase more than once.

    `total`: how many shards, graphs or kernels the stay counted up to last. `ended_ok`: another phase, or ready, came
    after it; a start whose stays all ended well became ready.
    """

    launch_id: str
    phase: Phase
    duration_s: float
    total: int | None = None
    ended_ok: bool = True


@dataclass(frozen=True, slots=True)
class History:
    """Stays of earlier starts, newest start first, the stays of one start together and in their order."""

    profile_on_node: tuple[PhaseSample, ...] = ()
    model_on_gpu_type: tuple[PhaseSample, ...] = ()

    def levels(self) -> tuple[tuple[HistoryLevel, tuple[PhaseSample, ...]], ...]:
        """Return the levels, the nearest first."""
        return (
            (HistoryLevel.PROFILE_ON_NODE, self.profile_on_node),
            (HistoryLevel.MODEL_ON_GPU_TYPE, self.model_on_gpu_type),
        )


def complete_starts(samples: Iterable[PhaseSample]) -> list[tuple[PhaseSample, ...]]:
    """Return the starts that became ready, each as its stays in order; SERVING is not a part of a start."""
    starts: dict[str, list[PhaseSample]] = {}
    for sample in samples:
        starts.setdefault(sample.launch_id, []).append(sample)
    return [
        tuple(stay for stay in stays if stay.phase is not Phase.SERVING)
        for stays in starts.values()
        if all(stay.ended_ok for stay in stays)
    ]


def seconds_by_phase(stays: Iterable[PhaseSample]) -> Mapping[Phase, float]:
    """Return how long one start was in each phase, all stays together, in the order of the first ones."""
    found: dict[Phase, float] = {}
    for stay in stays:
        found[stay.phase] = found.get(stay.phase, 0.0) + stay.duration_s
    return found


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the sorted values lie, interpolated between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
