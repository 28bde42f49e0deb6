"""Ways to look at the conditions for a launch: over SSH, in this process, or as somebody else."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from service.preflights.conditions import LaunchConditions
from service.preflights.node_wish import NodeWish
from service.remote import conditions as parsing
from service.remote.bundle import PYTHON_ARGV, payload
from service.remote.node import NodeSession
from service.remote.on_node import launch_conditions
from service.remote.on_node.answering import MARK
from tests.sshd import free_port

NOBODY = 65534
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else, or to mount")
NOW = datetime(2026, 1, 2, tzinfo=UTC)


async def look(node: NodeSession, **wishes: Any) -> LaunchConditions:
    """Ask a node, on a free port and of the tests' own Python unless told otherwise."""
    asked: dict[str, Any] = {"host": "127.0.0.1", "port": free_port(), "python": sys.executable, **wishes}
    return await node.launch_conditions(**{"paths": (), "environment": {}, **asked})


def look_here(**wishes: Any) -> LaunchConditions:
    """Look in this very process."""
    request = {"host": "127.0.0.1", "port": free_port(), "python": sys.executable, "paths": [], "environment": {}}
    return parsing.launch_conditions(json.loads(json.dumps(launch_conditions.launch_conditions({**request, **wishes}))))


def look_as(user: int, **wishes: Any) -> LaunchConditions:
    """Look as somebody else, with the very bytes that go to a node."""
    request = {"host": "127.0.0.1", "port": 1, "python": PYTHON, "paths": [], "environment": {}, **wishes}
    done = subprocess.run(
        PYTHON_ARGV,
        input=payload("launch_conditions", request, limit_s=10),
        capture_output=True,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": "/"},
        user=user,
        group=user,
        extra_groups=[],
        cwd="/",
        check=True,
    )
    return parsing.launch_conditions(json.loads(done.stdout[len(MARK) :])["result"])


def wish(host: str, port: int, **fields: Any) -> NodeWish:
    return NodeWish(host=host, port=port, gpu_count=0, engine_version=None, asked_at=NOW, answered_at=NOW, **fields)
