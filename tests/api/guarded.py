"""The application behind its gate: who has a token gets in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
from pydantic import SecretStr

from service.access.roles import Role
from service.app import create_app
from service.operations import granting
from service.settings import Settings
from tests.api.conftest import Api

ADMIN = "an-admin-token-that-an-operator-chose"


@dataclass(frozen=True)
class Guarded:
    """A client that sends no token by itself, and the application behind it."""

    api: Api
    document: dict[str, Any]

    async def ask(self, method: str, path: str, token: str | None = None, **request: Any) -> httpx2.Response:
        """Send one request with a token, or none."""
        headers = {**request.pop("headers", {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        where = path if path.startswith(("/healthz", "/readyz", "/metrics", "/docs")) else f"/api/v1{path}"
        return await self.api.http.request(method, where, headers=headers, **request)

    async def grant(self, role: Role, name: str | None = None) -> str:
        """Make a token through the API and return it."""
        answer = await self.ask("POST", "/tokens", ADMIN, json={"name": name or f"some-{role}", "role": role.value})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    async def grant_expired(self, role: Role = Role.ADMIN) -> str:
        """Make a token that is over, which the API refuses to make."""
        over = datetime.now(UTC) - timedelta(seconds=1)
        async with self.api.parts.control.database.write() as session:
            _, token = await granting.grant(session, "over", role=role, expires_at=over, actor="test", at=over)
        return token

    async def grant_and_revoke(self, role: Role = Role.ADMIN) -> str:
        """Make a token and revoke it."""
        token = await self.grant(role, "revoked")
        assert (await self.ask("GET", "/nodes", token)).status_code == 200
        assert (await self.ask("DELETE", "/tokens/revoked", ADMIN)).status_code == 204
        return token


@asynccontextmanager
async def guarded_app(state_dir: Path, **settings: Any) -> AsyncIterator[Guarded]:
    """Give an application that asks for tokens, with a first admin."""
    given = {"admin_token": SecretStr(ADMIN), **settings}
    app = create_app(Settings(state_dir=state_dir, **given))
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://vigil", timeout=30) as http:
            yield Guarded(Api(http, app.state.parts), app.openapi())
