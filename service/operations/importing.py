"""Result files from elsewhere: read apart from the event loop, kept as a run that has ended."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from service.benchmarks.comparability import comparability_key
from service.benchmarks.importing import ImportedFile, Mapped, import_file
from service.benchmarks.importing import ResultFileRejected as Rejected
from service.benchmarks.importing.redaction import redacted
from service.benchmarks.rates import per_gpu
from service.benchmarks.results import Result, ServerProvenance
from service.benchmarks.runs import RunSource, outcome_of
from service.db import benchmark_files, benchmarks
from service.db.benchmark_files import RawFile
from service.db.benchmark_tables import BenchmarkRun
from service.db.benchmarks import MeasuredRepeat, NewRun, RunSubject
from service.errors import AlreadyImported, ResultFileRejected
from service.operations import comparing

MODEL_LENGTH = 500
MASKED_NOTE = "secrets in the file were masked before it was kept"


@dataclass(frozen=True, slots=True)
class About:
    """What the importer says of a file; it fills in what the file itself does not tell."""

    subject: RunSubject = field(default_factory=RunSubject)
    profile: str | None = None
    """The name of the subject's profile."""
    benchmark: str | None = None
    engine_version: str | None = None
    gpu_model: str | None = None
    gpu_count: int | None = None


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that holds results, before it is kept."""

    imported: ImportedFile
    raw: RawFile


class FileReader:
    """Reads one file at a time: a hostile one costs some 300 MiB and seconds of CPU while it is read."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def read(self, content: bytes) -> ReadFile:
        """Return what a file holds, secrets masked; ResultFileRejected says why it is no result."""
        async with self._turn:
            try:
                return await asyncio.to_thread(_read, content)
            except Rejected as error:
                raise ResultFileRejected(error.detail, remedy=error.remedy, reason=str(error.reason)) from None


async def keep(session: AsyncSession, file: ReadFile, about: About, *, at: datetime, actor: str) -> BenchmarkRun:
    """Write a file down as a run that has ended, and compare it with its baseline; AlreadyImported if it is there.

    Results of one comparability key are repeats of one point of load, in the order of the file.
    """
    known = await benchmark_files.find_import(session, file.raw.sha256, about.subject.profile_id)
    if known is not None:
        raise AlreadyImported(f"this file was imported as run {known}", run=known)
    mapped = [Mapped(_completed(item.result, about), item.unmapped, item.notes) for item in file.imported.results]
    repeats = _placed(mapped)
    first = mapped[0].result.server
    subject = about.subject
    new = NewRun(
        source=RunSource.IMPORT,
        repeats=max(repeat.repeat_index for repeat in repeats) + 1,
        actor=actor,
        subject=replace(subject, model=_model(subject, first)),
        benchmark=about.benchmark,
        provenance={"file": {"kind": str(file.imported.kind), "sha256": file.raw.sha256}},
    )
    run = await benchmarks.create_run(session, new, at=at)
    await benchmarks.add_results(session, run.id, repeats)
    benchmark_files.add_file(session, run.id, file.raw)
    outcome = outcome_of([item.result.status for item in mapped], planned=len(mapped))
    await comparing.conclude(session, run.id, outcome, at=at)
    return run


def _read(content: bytes) -> ReadFile:
    sha256 = hashlib.sha256(content).hexdigest()
    clean = redacted(content)
    is_redacted = clean != content
    imported = import_file(clean)
    results = tuple(_with_source(item, sha256, is_redacted=is_redacted) for item in imported.results)
    whole = ImportedFile(kind=imported.kind, sha256=sha256, size_bytes=len(content), results=results)
    return ReadFile(whole, RawFile(clean, sha256, is_redacted=is_redacted))


def _with_source(item: Mapped, sha256: str, *, is_redacted: bool) -> Mapped:
    client = item.result.client.model_copy(update={"raw_sha256": sha256})
    notes = (*item.notes, MASKED_NOTE) if is_redacted else item.notes
    return Mapped(item.result.model_copy(update={"client": client}), item.unmapped, notes)


def _completed(result: Result, about: About) -> Result:
    """Return a result with what the importer says where the file is silent."""
    server, host, subject = result.server, result.host, about.subject
    server = server.model_copy(
        update={
            "engine_version": server.engine_version or about.engine_version,
            "model_id": server.model_id or subject.model,
            "profile": about.profile,
            "profile_version": subject.profile_version,
        }
    )
    host = host.model_copy(
        update={
            "gpu_model": host.gpu_model or about.gpu_model,
            "gpu_count_used": host.gpu_count_used or about.gpu_count,
        }
    )
    return per_gpu(result.model_copy(update={"server": server, "host": host}), host.gpu_count_used)


def _placed(mapped: Sequence[Mapped]) -> list[MeasuredRepeat]:
    counts: dict[str, int] = {}
    repeats = []
    for item in mapped:
        key = comparability_key(item.result)
        counts[key] = counts.get(key, 0) + 1
        repeats.append(MeasuredRepeat(point_index=list(counts).index(key), repeat_index=counts[key] - 1, mapped=item))
    return repeats


def _model(subject: RunSubject, server: ServerProvenance) -> str | None:
    model = subject.model or server.model_id or server.model_path
    return model[:MODEL_LENGTH] if model else None
