"""Questions about the history of acceptance."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.db.columns import one_of
from service.db.paging import PageRequest, Rows, fetch_page
from service.db.tables import AcceptanceSample
from service.sglang.acceptance import Decoding, Sample, Source
from service.sglang.acceptance.samples import KEPT_SAMPLES, SAMPLE_EVERY_S, merged


async def list_samples(session: AsyncSession, launch_id: str, request: PageRequest) -> Rows[AcceptanceSample]:
    """Return a page of a launch's samples, newest first."""
    query = select(AcceptanceSample).where(col(AcceptanceSample.launch_id) == launch_id)
    return await fetch_page(session, query, col(AcceptanceSample.id), request)


async def newest_samples(session: AsyncSession, launch_ids: Sequence[str]) -> dict[str, AcceptanceSample]:
    """Return the newest sample of each of many launches that has one."""
    newest = (
        select(func.max(col(AcceptanceSample.id)))
        .where(one_of(col(AcceptanceSample.launch_id), launch_ids))
        .group_by(col(AcceptanceSample.launch_id))
    )
    rows = await session.execute(select(AcceptanceSample).where(col(AcceptanceSample.id).in_(newest)))
    return {row.launch_id: row for row in rows.scalars()}


async def add_samples(session: AsyncSession, samples: Mapping[str, Sample]) -> None:
    """Keep a sample of each of these launches, in a few statements whatever their number.

    One that follows another within a minute, after a restart of the service, is merged into it.
    """
    newest = await newest_samples(session, list(samples))
    for launch_id, sample in samples.items():
        before = newest.get(launch_id)
        if before is not None and sample.at - before.at < timedelta(seconds=SAMPLE_EVERY_S):
            _put(before, merged(_taken(before), sample))
        else:
            session.add(AcceptanceSample(launch_id=launch_id, **_columns(sample)))
    await session.flush()
    for launch_id in await _too_many(session, list(samples)):
        await _thin(session, launch_id)


async def _too_many(session: AsyncSession, launch_ids: Sequence[str]) -> Sequence[str]:
    launch_id = col(AcceptanceSample.launch_id)
    query = (
        select(launch_id).where(one_of(launch_id, launch_ids)).group_by(launch_id).having(func.count() > KEPT_SAMPLES)
    )
    return (await session.execute(query)).scalars().all()


async def _thin(session: AsyncSession, launch_id: str) -> None:
    """Merge the older half of a launch's samples in pairs."""
    mine = col(AcceptanceSample.launch_id) == launch_id
    query = select(AcceptanceSample).where(mine).order_by(col(AcceptanceSample.id)).limit(KEPT_SAMPLES // 2)
    rows = (await session.execute(query)).scalars().all()
    for older, newer in zip(rows[::2], rows[1::2], strict=True):
        _put(newer, merged(_taken(older), _taken(newer)))
        await session.delete(older)


def _taken(row: AcceptanceSample) -> Sample:
    told = Decoding.told(
        accept_length=row.accept_length, accept_rate=row.accept_rate, verify_steps=float(row.verify_steps)
    )
    return Sample(row.at, row.window_s, Source(row.source), told, row.running_requests)


def _put(row: AcceptanceSample, sample: Sample) -> None:
    row.sqlmodel_update(_columns(sample))


def _columns(sample: Sample) -> dict[str, Any]:
    return {
        "at": sample.at,
        "window_s": round(sample.window_s, 3),
        "source": sample.source.value,
        "accept_length": sample.decoding.accept_length,
        "accept_rate": sample.decoding.accept_rate,
        "verify_steps": round(sample.decoding.verify_steps),
        "generated_tokens": round(sample.decoding.tokens),
        "running_requests": sample.running_requests,
    }
