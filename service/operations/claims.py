"""Claims on GPUs and ports: taken when a launch is accepted, released when it is proven gone."""

from collections.abc import Sequence

from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from service.db import servers as server_queries
from service.db.tables import GpuClaim, PortClaim, Server
from service.errors import GpuTaken, PortTaken


async def require_port(session: AsyncSession, server: Server) -> None:
    """Raise PortTaken, with the name of the holder, if another server has claimed this one's port."""
    holder = await server_queries.port_holder(session, server.node_id, server.port)
    if holder is not None:
        raise PortTaken(f"port {server.port} is held by server {holder}", holder=holder)


async def take(session: AsyncSession, server: Server, gpu_uuids: Sequence[str]) -> None:
    """Claim a server's port and GPUs; PortTaken or GpuTaken names the holder. The constraint decides a race."""
    await require_port(session, server)
    held = await server_queries.gpu_claims(session, server.node_id)
    for uuid in gpu_uuids:
        if uuid in held:
            raise GpuTaken(f"GPU {uuid} is held by server {held[uuid]}", holder=held[uuid])
    session.add(PortClaim(node_id=server.node_id, port=server.port, server_id=server.id))
    session.add_all(GpuClaim(node_id=server.node_id, gpu_uuid=uuid, server_id=server.id) for uuid in gpu_uuids)
    try:
        await session.flush()
    except IntegrityError as error:
        raise GpuTaken("another launch took a GPU or the port at the same moment") from error


async def release(session: AsyncSession, server_id: str) -> None:
    """Give back everything that a server holds."""
    await session.execute(delete(GpuClaim).where(col(GpuClaim.server_id) == server_id))
    await session.execute(delete(PortClaim).where(col(PortClaim.server_id) == server_id))
