"""`python -m service.simulator --root DIR`: a fleet in a process of its own, until SIGTERM or SIGINT.

Prints one JSON line that describes the fleet once every node can be reached, then nothing more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from service.simulator.demo import demo_fleet
from service.simulator.fleet import DEFAULT_PORTS_PER_NODE, EmbeddedFleet
from service.simulator.specs import ENGINE_VERSIONS, LLAMA_8B, TINY_LLAMA, NodeSpec


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m service.simulator", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="where the homes of the nodes lie")
    parser.add_argument("--nodes", type=int, default=2, help="how many nodes; they are called node-1, node-2, …")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs of each node; 0 means no nvidia-smi at all")
    parser.add_argument("--engine", action="append", choices=ENGINE_VERSIONS, help="engine environments of each node")
    parser.add_argument("--script", default=None, help="the engines' default script")
    parser.add_argument("--ports", type=int, default=DEFAULT_PORTS_PER_NODE, help="engine ports of each node")
    parser.add_argument("--demo", action="store_true", help="the three nodes of the demo instead")
    chosen = parser.parse_args()
    if chosen.demo:
        fleet = demo_fleet(chosen.root)
    else:
        versions = tuple(chosen.engine or ENGINE_VERSIONS[-1:])
        specs = [
            NodeSpec(
                name=f"node-{number}",
                gpu_count=chosen.gpus,
                engine_versions=versions,
                models=(TINY_LLAMA, LLAMA_8B),
                script=chosen.script,
            )
            for number in range(1, chosen.nodes + 1)
        ]
        fleet = EmbeddedFleet(chosen.root, specs, ports_per_node=chosen.ports)
    asyncio.run(_serve(fleet))


async def _serve(fleet: EmbeddedFleet) -> None:
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    async with fleet:
        sys.stdout.write(json.dumps(fleet.describe()) + "\n")
        sys.stdout.flush()
        await over.wait()


if __name__ == "__main__":
    main()
