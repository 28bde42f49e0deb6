"""What the log of a launch proves: why it failed, and what it complains of while it serves."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from service.db import findings as finding_queries
from service.db.tables import Finding
from service.nodes.inventory import Inventory
from service.operations import events
from service.servers.event import EventKind
from service.servers.observation import ProcessFact, ProcessState
from service.sglang.failures import Circumstances, Code, Diagnosis, diagnose
from service.sglang.failures.codes import remedy_text
from service.sglang.failures.findings import troubles
from service.sglang.failures.meanings import MEANINGS
from service.sglang.startup_log import StartupLog
from service.sglang.versions import parse_version

_ENDED = frozenset({ProcessState.EXITED, ProcessState.LOST})


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is wrong now, or was: `ended_at` is None while it goes on."""

    code: str
    summary: str
    remedy: str
    count: int
    evidence: list[dict[str, Any]]
    began_at: datetime | None
    ended_at: datetime | None


def diagnosis_of(
    log: StartupLog, process: ProcessFact, engine_version: str | None, *, is_stalled: bool
) -> Diagnosis | None:
    """Return why a launch failed, from its log, its exit and whether it stood still; None without a failure."""
    return diagnose(
        log,
        Circumstances(
            has_exited=process.state in _ENDED,
            exit_code=process.exit_code,
            engine_version=engine_version,
            is_stalled=is_stalled,
        ),
    )


def diagnosis_json(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    """Return a diagnosis as plain JSON values."""
    return asdict(diagnosis) if diagnosis else None


def complaints_of_log(log: StartupLog, engine_version: str | None) -> list[Complaint]:
    """Return what a serving engine complains of in its log; flags in the remedies are spelt as its version has them.

    Its speculation is judged elsewhere, by its log and its metrics.
    """
    version = parse_version(engine_version)
    return [
        Complaint(
            code=found.code,
            summary=MEANINGS[found.code].meaning,
            remedy=remedy_text(MEANINGS[found.code].remedy, version),
            count=found.count,
            evidence=[asdict(item) for item in found.evidence],
            began_at=found.began_at,
            ended_at=found.ended_at,
        )
        for found in troubles(log)
    ]


def complaints_of_inventory(inventory: Inventory) -> list[Complaint]:
    """Return what a look at a node's GPUs found wrong; what cannot be read is not called healthy or ill."""
    told = [f"GPU {gpu.index}: {error}" for gpu in inventory.gpus for error in gpu.errors]
    told += [inventory.gpu_error] if inventory.gpu_error else []
    told += inventory.gpu_warnings
    if not told:
        return []
    remedy = remedy_text(MEANINGS[Code.GPU_HARDWARE_ERROR].remedy, None)
    evidence = [{"line": None, "text": text} for text in told]
    return [Complaint(Code.GPU_HARDWARE_ERROR, "; ".join(told), remedy, len(told), evidence, inventory.at, None)]


async def reconcile(  # noqa: PLR0913  whose they are, and what is known
    session: AsyncSession,
    complaints: Sequence[Complaint],
    *,
    subject_id: str,
    node_id: str,
    server_id: str | None,
    at: datetime,
    undecided: frozenset[str] = frozenset(),
) -> None:
    """Bring the findings of a launch or node in line with what is wrong now.

    A new complaint begins a finding, one that goes on keeps its beginning, one that is over or gone gets its end; of
    the codes that are `undecided` nothing is known now, so their findings stay as they are.
    """
    known = {row.code: row for row in await finding_queries.open_findings(session, subject_id)}
    for complaint in complaints:
        row = known.pop(complaint.code, None)
        if row is None and complaint.ended_at is None:
            row = Finding(
                subject_id=subject_id,
                node_id=node_id,
                server_id=server_id,
                code=complaint.code,
                summary=complaint.summary,
                remedy=complaint.remedy,
                count=complaint.count,
                evidence=complaint.evidence,
                began_at=complaint.began_at or at,
            )
            session.add(row)
            events.tell_finding(session, EventKind.FINDING_BEGAN, row, at=at)
        elif row is not None:
            row.count, row.evidence, row.ended_at = complaint.count, complaint.evidence, complaint.ended_at
            row.summary = complaint.summary
            if row.ended_at is not None:
                events.tell_finding(session, EventKind.FINDING_ENDED, row, at=at)
    for row in known.values():
        if row.code not in undecided:
            row.ended_at = at
            events.tell_finding(session, EventKind.FINDING_ENDED, row, at=at)
