"""The fleet of the demo: two GPU nodes and one without, with engines and models, and the profiles to launch there."""

from __future__ import annotations

from pathlib import Path

from service.simulator.fleet import EmbeddedFleet
from service.simulator.node import SimulatedNode
from service.simulator.specs import (
    KIMI_EAGLE3,
    KIMI_LIKE,
    LLAMA_8B,
    NEWEST_ENGINE,
    RTX_PRO_6000,
    TINY_LLAMA,
    NodeSpec,
)

DEMO_NODES = (
    NodeSpec(
        name="atlas",
        gpu_count=8,
        gpu=RTX_PRO_6000,
        engine_versions=(NEWEST_ENGINE, "0.5.16", "0.5.10.post1"),
        models=(KIMI_LIKE, KIMI_EAGLE3, LLAMA_8B, TINY_LLAMA),
        driver_version="595.80",
    ),
    NodeSpec(name="borealis", gpu_count=4, models=(LLAMA_8B, TINY_LLAMA)),
    NodeSpec(name="cirrus", gpu_count=0, models=(TINY_LLAMA,)),
)


def demo_fleet(root: Path) -> EmbeddedFleet:
    """Return the demo's fleet, which starts when it is entered."""
    return EmbeddedFleet(root, DEMO_NODES)


def node_body(node: SimulatedNode) -> dict[str, object]:
    """Return the body by which a node is registered: POST /nodes."""
    return {
        "name": node.name,
        "address": node.address,
        "port": node.port,
        "user": node.user,
        "credential": {"kind": "key_file", "path": str(node.key_path)},
        "trust_on_first_use": True,
        "engines": list(node.engine_pythons.values()),
        "first_port": node.port_range.start,
        "last_port": node.port_range.stop - 1,
    }


def profile_bodies(fleet: EmbeddedFleet) -> list[dict[str, object]]:
    """Return the demo's profiles: a small model anywhere, a big one with a draft on eight GPUs, and one that fails.

    Each is a body of POST /profiles. A profile's paths are the node's, and homes differ here, so each belongs to the
    node that its name begins with.
    """
    atlas, borealis, cirrus = fleet.node("atlas"), fleet.node("borealis"), fleet.node("cirrus")
    kimi = {
        "tp-size": 8,
        "trust-remote-code": True,
        "speculative-algorithm": "EAGLE3",
        "speculative-draft-model-path": atlas.model_path(KIMI_EAGLE3.name),
        "speculative-num-steps": 3,
        "speculative-eagle-topk": 1,
        "speculative-num-draft-tokens": 4,
    }
    llama = LLAMA_8B.name
    return [
        _profile(atlas, "atlas-kimi", model=KIMI_LIKE.name, server_args=kimi, gpu_count=8),
        _profile(borealis, "borealis-llama", model=llama, server_args={"tp-size": 2}, gpu_count=2),
        _profile(borealis, "borealis-llama-fast", model=llama, gpu_count=1, script="fast"),
        _profile(borealis, "borealis-llama-oom", model=llama, gpu_count=1, script="oom_graph_capture"),
        _profile(borealis, "borealis-llama-frozen", model=llama, gpu_count=1, script="frozen_graphs"),
        _profile(cirrus, "cirrus-tiny", model=TINY_LLAMA.name, server_args={"device": "cpu"}, gpu_count=0),
    ]


def _profile(
    node: SimulatedNode,
    name: str,
    *,
    model: str,
    gpu_count: int,
    server_args: dict[str, object] | None = None,
    script: str = "default",
) -> dict[str, object]:
    recipe = {
        "python": node.engine_python,
        "model_path": node.model_path(model),
        "server_args": server_args or {},
        "env": {"VIGIL_SIM_SCRIPT": script},
        "gpu_count": gpu_count,
    }
    return {"name": name, "recipe": recipe}
