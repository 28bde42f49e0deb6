"""Questions about findings."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.db.paging import PageRequest, Rows, fetch_page
from service.db.tables import Finding


async def open_findings(session: AsyncSession, subject_id: str) -> Sequence[Finding]:
    """Return the findings of a launch or node that have not ended."""
    query = select(Finding).where(col(Finding.subject_id) == subject_id, col(Finding.ended_at).is_(None))
    return (await session.execute(query)).scalars().all()


async def list_findings(
    session: AsyncSession,
    request: PageRequest,
    *,
    server_id: str | None,
    node_id: str | None,
    is_open: bool | None,
) -> Rows[Finding]:
    """Return a page of findings, newest first."""
    query = select(Finding)
    if server_id is not None:
        query = query.where(col(Finding.server_id) == server_id)
    if node_id is not None:
        query = query.where(col(Finding.node_id) == node_id)
    if is_open is not None:
        ended = col(Finding.ended_at)
        query = query.where(ended.is_(None) if is_open else ended.is_not(None))
    return await fetch_page(session, query, col(Finding.id), request)
