"""An engine that is one node's part of a larger server is not taken over: it speaks for itself, not for the server."""

from typing import cast

import pytest

from service.db.tables import Node
from service.errors import InvalidInput
from service.operations import adopting
from service.remote.messages import FoundEngine
from tests.watchers.conftest import BEGAN_AT, NodeStandIn, Scene


class NodeWithEngine(NodeStandIn):
    """A node on which somebody started an engine."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments

    async def find_engines(self) -> list[FoundEngine]:
        """Return the engine."""
        command = ("/opt/python", "-m", "sglang.launch_server", "--model-path", "/models/m", *self._arguments)
        return [
            FoundEngine(
                pid=7,
                start_ticks=1,
                user="u",
                command=command,
                python="/opt/python",
                model_path="/models/m",
                port=30_000,
                host="127.0.0.1",
                launch_id=None,
                started_at=BEGAN_AT,
                log_path=None,
                member_pids=(7,),
                gpu_uuids=(),
                gpu_error=None,
            )
        ]

    async def engine_version(self, _python: str) -> str:
        """Return a version."""
        return "0.5.23"

    async def adopt(self, *_: object, **__: object) -> None:
        """Take it over."""


async def take_over(scene: Scene, *arguments: str) -> adopting.Adoption:
    scene.control.node = NodeWithEngine(*arguments)
    async with scene.control.database.read() as session:
        node = cast("Node", await session.get_one(Node, "nd_1"))
    return await adopting.take_over(scene.control, node, 7)


@pytest.mark.parametrize("arguments", [("--nnodes", "2", "--node-rank", "1"), ("--nnodes=2", "--node-rank=0")])
async def test_a_rank_of_a_server_of_several_nodes_is_refused(scene: Scene, arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="several nodes"):
        await take_over(scene, *arguments)


async def test_a_server_of_one_node_that_says_so_is_taken_over(scene: Scene) -> None:
    adoption = await take_over(scene, "--nnodes", "1", "--node-rank", "0", "--tp-size", "8")
    assert adoption.recipe.server_args == {"tp-size": "8"}
