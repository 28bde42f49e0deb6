"""`vigil token`: makes, lists and revokes tokens; in the database on this machine, or through a running service."""

import asyncio
import getpass
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from sqlalchemy import inspect
from sqlalchemy.exc import SQLAlchemyError

from service.access.roles import Role
from service.api.schemas.tokens import token_created, token_public
from service.cli.client import Unreachable, ask
from service.clock import to_text, utc_now
from service.db import migrating
from service.db import tokens as token_queries
from service.db.engine import Database, prepare_state_dir
from service.db.paging import MAX_LIMIT, PageRequest
from service.errors import VigilError
from service.operations import granting
from service.settings import Settings

DONE, REFUSED, NO_ANSWER = 0, 1, 2
_PATH = "/tokens"
_HTTP_ERRORS = 400


def create(name: str, *, role: Role, days: float | None, url: str | None) -> int:
    """Make a token; it alone goes to standard output, for a script to take."""

    async def here(database: Database) -> Any:
        at = utc_now()
        until = at + timedelta(days=days) if days is not None else None
        async with database.write() as session:
            row, token = await granting.grant(session, name, role=role, expires_at=until, actor=_actor(), at=at)
        return token_created(row, at, token).model_dump(mode="json")

    async def there(service: str) -> tuple[int, Any]:
        until = to_text(utc_now() + timedelta(days=days)) if days is not None else None
        return await ask("POST", service, _PATH, json={"name": name, "role": role.value, "expires_at": until})

    code, made = _do(here, there, url)
    if code == DONE:
        until = made["expires_at"]
        valid = f"valid until {until}" if until else "valid until it is revoked"
        _say(f"{made['name']} ({made['role']}), {valid}. Shown this once:")
        sys.stdout.write(made["token"] + "\n")
    return code


def show(*, as_json: bool, url: str | None) -> int:
    """List the tokens that are not revoked."""

    async def here(database: Database) -> Any:
        async with database.read() as session:
            rows = await token_queries.list_tokens(session, PageRequest(limit=MAX_LIMIT))
        return {"items": [token_public(row, utc_now()).model_dump(mode="json") for row in rows.items]}

    async def there(service: str) -> tuple[int, Any]:
        return await ask("GET", service, _PATH, params={"limit": MAX_LIMIT})

    code, found = _do(here, there, url)
    if code == DONE and as_json:
        sys.stdout.write(json.dumps(found["items"]) + "\n")
    elif code == DONE:
        _print(found["items"])
    return code


def revoke(name: str, *, url: str | None) -> int:
    """Revoke a token; a service that runs on the same database knows it within seconds."""

    async def here(database: Database) -> Any:
        async with database.write() as session:
            await granting.revoke(session, name, at=utc_now())

    async def there(service: str) -> tuple[int, Any]:
        return await ask("DELETE", service, f"{_PATH}/{name}")

    code, _ = _do(here, there, url)
    if code == DONE:
        _say(f"{name} is revoked")
    return code


def _do(
    here: Callable[[Database], Awaitable[Any]],
    there: Callable[[str], Coroutine[Any, Any, tuple[int, Any]]],
    url: str | None,
) -> tuple[int, Any]:
    """Do it in the database, or at `url` through the service; returns the exit code and what came of it."""
    try:
        if url is None:
            return DONE, asyncio.run(_with_database(here))
        status, document = asyncio.run(there(url))
    except VigilError as error:
        return _refused(error.code, error.detail, error.remedy_text)
    except SQLAlchemyError as error:
        _say(f"the database cannot be used ({type(error).__name__}): start the service of this release once")
        return NO_ANSWER, None
    except Unreachable as error:
        _say(str(error))
        return NO_ANSWER, None
    if status >= _HTTP_ERRORS:
        return _refused(document["code"], document["detail"], document["remedy"])
    return DONE, document


async def _with_database(here: Callable[[Database], Awaitable[Any]]) -> Any:
    """Open the database of the settings, with its tables where it is new; one that is there is not migrated."""
    settings = Settings()
    url = settings.resolved_database_url()
    prepare_state_dir(settings.resolved_state_dir())
    await asyncio.to_thread(_create_if_new, url)
    database = Database(url)
    try:
        return await here(database)
    finally:
        await database.close()


def _create_if_new(url: str) -> None:
    engine = migrating.sync_engine(url)
    is_new = not inspect(engine).get_table_names()
    engine.dispose()
    if is_new:
        migrating.upgrade(url)


def _refused(code: str, detail: str, remedy: str) -> tuple[int, None]:
    _say(f"{code}: {detail}. {remedy}")
    return REFUSED, None


def _print(tokens: list[dict[str, Any]]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("name", "role", "made by", "last used", "valid until"):
        table.add_column(heading, overflow="fold")
    for item in tokens:
        until = "it is revoked" if item["expires_at"] is None else item["expires_at"]
        valid = f"{until} (expired)" if item["is_expired"] else until
        table.add_row(item["name"], item["role"], item["created_by"], item["last_used_at"] or "never", valid)
    Console().print(table)


def _actor() -> str:
    return f"local:{getpass.getuser()}"


def _say(text: str) -> None:
    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)
