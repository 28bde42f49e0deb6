"""What is kept of the files that clients wrote: compressed, secrets masked, with the hash from before."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer
from sqlmodel import col, select

from service.benchmarks.runs import RunSource
from service.db.benchmark_tables import BenchmarkFile, BenchmarkRun
from service.errors import NotFound

MAX_RAW_BYTES = 32 * 1024 * 1024
"""A file that is larger is not kept; its hash is."""
_COMPRESSION = 6
_LEFT_OUT = [defer(getattr(BenchmarkFile, name)) for name in ("content",)]


@dataclass(frozen=True, slots=True)
class RawFile:
    """A client's file, secrets masked, with the hash that it had before."""

    content: bytes
    sha256: str
    is_redacted: bool


def add_file(session: AsyncSession, run_id: str, raw: RawFile, *, point_index: int = 0, repeat_index: int = 0) -> None:
    """Keep a client's file; one above the limit is not kept."""
    if len(raw.content) > MAX_RAW_BYTES:
        return
    session.add(
        BenchmarkFile(
            run_id=run_id,
            point_index=point_index,
            repeat_index=repeat_index,
            sha256=raw.sha256,
            size_bytes=len(raw.content),
            is_redacted=raw.is_redacted,
            content=zlib.compress(raw.content, _COMPRESSION),
        )
    )


async def list_files(session: AsyncSession, run_id: str) -> Sequence[BenchmarkFile]:
    """Return what is kept of the client's files of a run, in the order of points and repeats, without contents."""
    query = (
        select(BenchmarkFile)
        .options(*_LEFT_OUT)
        .where(col(BenchmarkFile.run_id) == run_id)
        .order_by(col(BenchmarkFile.point_index), col(BenchmarkFile.repeat_index))
    )
    return (await session.execute(query)).scalars().all()


async def find_import(session: AsyncSession, sha256: str, profile_id: str | None) -> str | None:
    """Return the id of the run that a file was imported as for a profile, or for none; None if it was not."""
    query = (
        select(col(BenchmarkRun.id))
        .join(BenchmarkFile, col(BenchmarkFile.run_id) == col(BenchmarkRun.id))
        .where(
            col(BenchmarkFile.sha256) == sha256,
            col(BenchmarkRun.source) == RunSource.IMPORT,
            col(BenchmarkRun.profile_id).is_(None)
            if profile_id is None
            else col(BenchmarkRun.profile_id) == profile_id,
        )
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def read_content(session: AsyncSession, file_id: int) -> bytes:
    """Return a file as it was kept; NotFound if it is no longer there."""
    query = select(col(BenchmarkFile.content)).where(col(BenchmarkFile.id) == file_id)
    content = (await session.execute(query)).scalar_one_or_none()
    if content is None:
        raise NotFound("the file is no longer kept")
    return zlib.decompress(content)
