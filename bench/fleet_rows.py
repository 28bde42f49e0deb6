"""Writes a fleet into a database that no service uses: nodes with one server each, ready since the last start."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fake_facts import GPU_COUNT, plain_inventory
from pydantic import TypeAdapter

from service.clock import to_text
from service.db import migrating
from service.db.engine import Database
from service.db.tables import Launch, Node, PortClaim, Profile, ProfileVersion, Server
from service.ids import new_id
from service.nodes.contact import Contact
from service.nodes.inventory import parse_inventory
from service.servers.states import Desired, State

_JSON = TypeAdapter(dict[str, Any])
_PORT = 30000
_PHASES = (
    "parsing_arguments",
    "spawning",
    "distributed_init",
    "loading_weights",
    "allocating_kv_cache",
    "capturing_graphs",
    "binding_http",
    "warming_up",
    "serving",
)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node to write, and where its SSH server is said to be."""

    name: str
    port: int


async def write_fleet(url: str, nodes: Sequence[NodeRow], *, key_file: Path, host_key: str, now: datetime) -> None:
    """Create the database and write the nodes, as a service would have left them."""
    migrating.upgrade(url)
    database = Database(url)
    recipe = {
        "python": "/opt/sglang/bin/python",
        "model_path": "/models/llama-3.1-70b",
        "server_args": {"tp-size": GPU_COUNT, "mem-fraction-static": 0.85, "enable-metrics": True},
        "gpu_count": GPU_COUNT,
    }
    profile = Profile(id=new_id("pf", now), name="llama", latest_version=1, created_at=now)
    version = ProfileVersion(id=new_id("pv", now), profile_id=profile.id, number=1, recipe=recipe, created_at=now)
    inventory = parse_inventory(plain_inventory())
    document = _JSON.dump_python({**asdict(inventory), "engines": []}, mode="json")
    async with database.write() as session:
        session.add(profile)
        await session.flush()
        session.add(version)
        for row in nodes:
            node = _node(row, document, key_file=key_file, host_key=host_key, now=now)
            session.add(node)
            await session.flush()
            server = _server(row, node, profile, now=now)
            session.add(server)
            await session.flush()
            session.add(_launch(server, recipe, document["gpus"], now=now))
            session.add(PortClaim(node_id=node.id, port=_PORT, server_id=server.id))
    await database.close()


def _node(row: NodeRow, document: dict[str, Any], *, key_file: Path, host_key: str, now: datetime) -> Node:
    return Node(
        id=new_id("nd", now),
        name=row.name,
        address="127.0.0.1",
        port=row.port,
        user="ops",
        credential={"kind": "key_file", "path": str(key_file)},
        host_key=host_key,
        engines=[],
        first_port=_PORT,
        last_port=_PORT + 999,
        contact=Contact.UNKNOWN,
        contact_since_at=now,
        inventory=document,
        inventory_at=now,
        created_at=now,
    )


def _server(row: NodeRow, node: Node, profile: Profile, *, now: datetime) -> Server:
    return Server(
        id=new_id("sv", now),
        name=f"server-{row.name}",
        node_id=node.id,
        profile_id=profile.id,
        profile_version=1,
        port=_PORT,
        gpu_count=GPU_COUNT,
        desired=Desired.RUNNING,
        state=State.READY,
        state_since_at=now,
        launch_id=new_id("ln", now),
        launch_count=1,
        created_at=now,
    )


def _launch(server: Server, recipe: dict[str, Any], gpus: list[dict[str, Any]], *, now: datetime) -> Launch:
    if server.launch_id is None:
        raise ValueError("the server has no launch")
    timeline = [{"phase": p, "started_at": to_text(now), "ended_at": to_text(now), "progress": None} for p in _PHASES]
    return Launch(
        id=server.launch_id,
        server_id=server.id,
        node_id=server.node_id,
        number=1,
        profile_id=server.profile_id,
        profile_version=1,
        recipe=recipe,
        argv=[recipe["python"], "-m", "sglang.launch_server", "--model-path", recipe["model_path"]],
        environment={"VIGIL_LAUNCH_ID": server.launch_id},
        engine_version="0.5.23",
        model_path=recipe["model_path"],
        gpu_name=gpus[0]["name"],
        port=_PORT,
        gpus=[{"index": gpu["index"], "uuid": gpu["uuid"], "name": gpu["name"]} for gpu in gpus],
        launcher="systemd_user",
        pid=5151,
        created_at=now,
        started_at=now,
        ready_at=now,
        phase="serving",
        timeline=timeline,
        verdict={
            "verdict": "healthy",
            "message": "/health answers 200",
            "silent_since": None,
            "since_at": to_text(now),
        },
        log_offset=1_000_000,
    )
