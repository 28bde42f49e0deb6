"""What api_speed.py compares with: the smallest handlers of FastAPI, SQLModel and aiosqlite that answer the same bytes.

One table whose rows are as wide as what the API shows of a server, no access rules, no live picture, no joins. With
`--calm` the collector is calmed as the service calms its own. A file of JSON fills the table; then it serves.
"""

import argparse
import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import JSON, Column, event
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlmodel import Field, SQLModel, col, select

from service.app import COLLECTOR_THRESHOLDS


def _json() -> Any:
    return Field(sa_column=Column(JSON(none_as_null=True)))


class Row(SQLModel, table=True):
    """A server as one flat row; what is nested is JSON, and instants are text already."""

    id: str = Field(primary_key=True)
    name: str = Field(index=True)
    state: str
    state_since_at: str
    reason: str | None
    message: str | None
    desired: str
    node: str
    contact: dict[str, Any] = _json()
    profile: str
    profile_version: int
    port: int
    pinned_gpus: list[Any] | None = _json()
    gpu_count: int
    launch: dict[str, Any] | None = _json()
    verdict: dict[str, Any] | None = _json()
    eta: dict[str, Any] | None = _json()
    operation: dict[str, Any] | None = _json()
    findings: list[dict[str, Any]] = _json()
    acceptance: dict[str, Any] | None = _json()
    observed_at: str | None
    created_at: str


class Page(BaseModel):
    """A page of rows."""

    items: list[Row]
    next_cursor: str | None


def plain_app(database: Path) -> FastAPI:
    """Return the application."""
    app = FastAPI()
    engine = create_async_engine(f"sqlite+aiosqlite:///{database}")
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    event.listen(engine.sync_engine, "connect", lambda raw, _: raw.execute("PRAGMA journal_mode=WAL"))

    @app.get("/servers")
    async def list_rows(limit: int = 50) -> Page:
        async with sessions() as session:
            query = select(Row).order_by(col(Row.id).desc()).limit(limit + 1)
            rows = (await session.execute(query)).scalars().all()
        return Page(items=list(rows[:limit]), next_cursor=rows[limit - 1].id if len(rows) > limit else None)

    @app.get("/servers/{name}")
    async def get_row(name: str) -> Row:
        async with sessions() as session:
            return (await session.execute(select(Row).where(col(Row.name) == name))).scalar_one()

    return app


async def _fill(database: Path, items: list[dict[str, Any]]) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{database}")
    async with engine.begin() as connection:
        await connection.run_sync(SQLModel.metadata.tables["row"].create)
    async with async_sessionmaker(engine)() as session:
        session.add_all([Row(**item) for item in items])
        await session.commit()
    await engine.dispose()


def main() -> None:
    """Fill a new database and serve it until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", type=Path, help="a file of JSON: what the API shows of the servers")
    parser.add_argument("database", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--calm", action="store_true")
    arguments = parser.parse_args()
    asyncio.run(_fill(arguments.database, json.loads(arguments.items.read_text("utf-8"))))
    app = plain_app(arguments.database)
    if arguments.calm:
        gc.freeze()
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
    uvicorn.run(app, port=arguments.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
