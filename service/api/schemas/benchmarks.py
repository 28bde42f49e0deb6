"""Workload definitions and baselines as the API shows them."""

from pydantic import BaseModel, Field

from service.api.schemas.common import Name, Request, shown
from service.benchmarks.presets import PRESETS, SLO_TEMPLATES
from service.benchmarks.workload import GoodputLimits, Workload
from service.clock import Instant
from service.db.benchmark_tables import Baseline, Benchmark


class BenchmarkCreate(Request):
    """A new workload. It is never changed: runs under one name did the same."""

    model_config = shown(
        {
            "name": "support-chat",
            "workload": {
                "dataset": {"kind": "random_ids", "input_tokens": 1024, "output_tokens": 256},
                "load": {"kind": "closed", "concurrency": [1, 8, 64]},
                "goodput": {"ttft_ms": 2000, "tpot_ms": 100},
            },
        }
    )

    name: Name
    workload: Workload


class BenchmarkPublic(BaseModel):
    """A workload under its name."""

    id: str | None = Field(description="null for one that is shipped.")
    name: str
    workload: Workload
    loads: list[str] = Field(description="The points of load that a run visits, in words.")
    created_at: Instant | None = Field(description="null for one that is shipped.")


class SloTemplate(BaseModel):
    """Limits for goodput after the server scenarios of MLPerf Inference: copy them into a workload's `goodput`."""

    name: str
    limits: GoodputLimits


class BenchmarkPresets(BaseModel):
    """What is shipped: workloads to run as they are, and latency limits to define others with."""

    benchmarks: list[BenchmarkPublic]
    slo_templates: list[SloTemplate]


class BaselineSet(Request):
    """Which run later ones are compared with."""

    model_config = shown({"run": "br_01k0c8m2q4"})

    run: str = Field(pattern=r"^br_[0-9a-z]{1,40}$", description="The id of a run of this profile that succeeded.")


class BaselinePublic(BaseModel):
    """The run that later runs of a profile and benchmark are compared with."""

    profile: str
    benchmark: str | None = Field(description="null for imports that were told of no benchmark.")
    run: str
    actor: str
    set_at: Instant


def benchmark_public(name: str, workload: Workload, row: Benchmark | None) -> BenchmarkPublic:
    """Return a workload as the API shows it; without a row it is a shipped one."""
    return BenchmarkPublic(
        id=row.id if row else None,
        name=name,
        workload=workload,
        loads=[point.label for point in workload.points()],
        created_at=row.created_at if row else None,
    )


def presets_public() -> BenchmarkPresets:
    """Return what is shipped."""
    return BenchmarkPresets(
        benchmarks=[benchmark_public(name, workload, None) for name, workload in PRESETS.items()],
        slo_templates=[SloTemplate(name=name, limits=limits) for name, limits in SLO_TEMPLATES.items()],
    )


def baseline_public(row: Baseline, profile: str) -> BaselinePublic:
    """Return a baseline as the API shows it."""
    return BaselinePublic(
        profile=profile, benchmark=row.benchmark or None, run=row.run_id, actor=row.actor, set_at=row.set_at
    )
