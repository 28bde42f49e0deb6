"""The application in this process, with its parts in reach; no node answers unless a test makes one."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.api.dependencies import Parts
from service.app import create_app
from service.db.tables import Node
from service.ids import new_id
from service.nodes.contact import Contact
from service.settings import Access, Settings

RECIPE = {"python": "/opt/sglang/bin/python", "model_path": "/models/tiny", "gpu_count": 0}


@dataclass(frozen=True)
class Api:
    """A client of the application, and the parts behind it."""

    http: httpx2.AsyncClient
    parts: Parts

    async def call(self, method: str, path: str, body: object = None, *, key: str | None = None) -> tuple[int, Any]:
        """Return status and document of one request."""
        headers = {"Idempotency-Key": key} if key else {}
        answer = await self.http.request(method, f"/api/v1{path}", json=body, headers=headers)
        return answer.status_code, answer.json() if answer.content else None

    async def add_node(self, name: str = "atlas", *, gpus: int = 0) -> str:
        """Write a node that nothing answers for, as if its contact had been lost."""
        now = datetime.now(UTC)
        node = Node(
            id=new_id("nd", now),
            name=name,
            address="127.0.0.1",
            port=1,
            user="ops",
            credential={"kind": "agent"},
            engines=[],
            first_port=30000,
            last_port=30001,
            contact=Contact.LOST,
            contact_since_at=now,
            contact_code="node_unreachable",
            contact_detail="refused",
            inventory=inventory(gpus),
            inventory_at=now,
            created_at=now,
        )
        async with self.parts.control.database.write() as session:
            session.add(node)
        return name

    async def add_server(self, name: str = "one", *, node: str = "atlas") -> None:
        """Write a profile and a stopped server of it."""
        await self.call("POST", "/profiles", {"name": "p", "recipe": RECIPE})
        status, document = await self.call("POST", "/servers", {"name": name, "profile": "p", "node": node})
        assert status == 201, document


def inventory(gpus: int) -> dict[str, Any]:
    """Return what a look at a node with so many idle GPUs leaves."""
    return {
        "at": "2026-11-29T12:00:00Z",
        "boot_id": "b",
        "hostname": "atlas",
        "kernel": "6.1",
        "cpu_count": 64,
        "memory_total_mib": 1000,
        "memory_available_mib": 900,
        "disks": [],
        "shm_total_mib": 500,
        "shm_free_mib": 500,
        "driver_version": "590.48.01",
        "gpus": [
            {
                "index": index,
                "uuid": f"GPU-{index}",
                "name": "NVIDIA H100 80GB HBM3",
                "memory_total_mib": 81559,
                "memory_used_mib": 0,
                "pci_bus_id": f"00000000:0{index}:00.0",
                "holders": [],
                "errors": [],
            }
            for index in range(gpus)
        ],
        "gpu_error": None,
        "utc_offset_s": 0,
        "uid": 0,
        "user": "ops",
        "launcher": "setsid",
        "engines": [],
    }


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """Give a running application on an empty database."""
    app = create_app(Settings(access=Access.OPEN, state_dir=tmp_path, connect_deadline_s=2))
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield Api(http, app.state.parts)
