"""What a server's counters and its GPUs said while a client ran: read from the node's lines, summed up, thinned out."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from service.benchmarks.results import Energy
from service.clock import from_epoch, to_text
from service.sglang.bench_client import PAUSE_BEFORE_S, STAGES, ClientStage
from service.sglang.metrics import EngineCounters, parse_metrics

KEPT_SAMPLES = 400
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,6})?")
_COUNTERS = ("running_requests", "queued_requests", "token_usage", "accept_length", "generation_rate")


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one instant; what the driver does not tell ([N/A]) is None."""

    uuid: str
    utilization: float | None
    """0 to 1."""
    power_w: float | None
    power_limit_w: float | None
    memory_mib: float | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One look: at the GPUs, or at the server's counters."""

    at: datetime
    stage: ClientStage
    gpus: tuple[GpuSample, ...] = ()
    counters: EngineCounters | None = None


def read_samples(lines: bytes) -> tuple[Sample, ...]:
    """Return the samples in the order of their time; a line that is cut off or no sample is left out."""
    samples = (_sample(line) for line in lines.splitlines())
    return tuple(sorted((sample for sample in samples if sample is not None), key=lambda sample: sample.at))


def energy_of(
    samples: Sequence[Sample], *, gpu_uuids: Collection[str], duration_s: float | None, output_tokens: int | None
) -> Energy | None:
    """Return power and utilisation over the measured part; None when no GPU was seen in it.

    The power is the sum over the GPUs of each one's mean, and is unknown when that of one GPU is. The measured part
    begins a second after the client says so, and lasts as long as the client says.
    """
    seen = _measured_gpus(samples, duration_s)
    if not seen:
        return None
    powers = [_mean([gpu.power_w for gpu in seen if gpu.uuid == uuid]) for uuid in gpu_uuids]
    known = [power for power in powers if power is not None]
    power_w = sum(known) if known and len(known) == len(powers) else None
    utilization = _mean([gpu.utilization for gpu in seen])
    token_j = power_w * duration_s / output_tokens if power_w is not None and duration_s and output_tokens else None
    return Energy(mean_power_w=power_w, output_token_j=token_j, mean_utilization=utilization)


def power_limit_w(samples: Sequence[Sample]) -> float | None:
    """Return the power limit of one GPU, the lowest that was seen; None when none was."""
    limits = [gpu.power_limit_w for sample in samples for gpu in sample.gpus if gpu.power_limit_w is not None]
    return min(limits, default=None)


def other_traffic(samples: Sequence[Sample]) -> float | None:
    """Return the most requests that ran or waited before the client sent any; None when there were none."""
    counts = [
        (sample.counters.running_requests or 0) + (sample.counters.queued_requests or 0)
        for sample in samples
        if sample.stage is ClientStage.PREPARING and sample.counters is not None
    ]
    return max(counts, default=0) or None


def sample_documents(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return the samples as plain values, thinned out evenly to at most KEPT_SAMPLES of each kind."""
    kept = [
        *_thinned([sample for sample in samples if sample.gpus]),
        *_thinned([sample for sample in samples if sample.counters is not None]),
    ]
    return [_document(sample) for sample in sorted(kept, key=lambda sample: sample.at)]


def _sample(line: bytes) -> Sample | None:
    try:
        said = json.loads(line)
        at = from_epoch(float(said["at"]))
        stage = STAGES[min(int(said["stage"]), len(STAGES) - 1)]
        if "metrics" in said:
            return Sample(at, stage, counters=parse_metrics(str(said["metrics"])))
        return Sample(at, stage, gpus=tuple(_gpu(row) for row in said["gpus"]))
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, OSError):
        return None


def _gpu(row: Sequence[str]) -> GpuSample:
    uuid, utilization, power, limit, memory = row
    percent = _number(utilization)
    return GpuSample(
        uuid=uuid,
        utilization=None if percent is None else min(percent / 100, 1.0),
        power_w=_number(power),
        power_limit_w=_number(limit),
        memory_mib=_number(memory),
    )


def _number(cell: str) -> float | None:
    return float(cell) if _NUMBER.fullmatch(cell) else None


def _measured_gpus(samples: Sequence[Sample], duration_s: float | None) -> list[GpuSample]:
    measured = [sample for sample in samples if sample.stage is ClientStage.MEASURING]
    if not measured:
        return []
    begin = measured[0].at + timedelta(seconds=PAUSE_BEFORE_S)
    end = measured[-1].at if duration_s is None else begin + timedelta(seconds=duration_s)
    return [gpu for sample in measured if begin <= sample.at <= end for gpu in sample.gpus]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _thinned(samples: Sequence[Sample]) -> Sequence[Sample]:
    stride = -(-len(samples) // KEPT_SAMPLES)
    return samples[::stride] if stride > 1 else samples


def _document(sample: Sample) -> dict[str, Any]:
    document: dict[str, Any] = {"at": to_text(sample.at), "stage": str(sample.stage)}
    if sample.counters is not None:
        document.update(_rounded({name: getattr(sample.counters, name) for name in _COUNTERS}))
    if sample.gpus:
        document["gpus"] = [
            {
                "uuid": gpu.uuid,
                **_rounded(
                    {"utilization": gpu.utilization, "power_w": gpu.power_w, "memory_mib": gpu.memory_mib},
                ),
            }
            for gpu in sample.gpus
        ]
    return document


def _rounded(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: None if value is None else round(value, 4) for name, value in values.items()}
