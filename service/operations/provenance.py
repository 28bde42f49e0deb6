"""What a benchmark measures and where: server, engine and node as they are known when a run begins."""

from collections.abc import Collection
from typing import Any

from service.benchmarks.results import HostProvenance, ServerProvenance
from service.db.tables import Launch, Node, Profile, Server
from service.profiles.profile import Profile as Recipe
from service.remote.messages import GpuHoldersFact


def server_provenance(launch: Launch, profile: Profile) -> ServerProvenance:
    """Return what is known of a server; what its engine resolved (sizes, quantization) is told by the client's file."""
    recipe = Recipe.model_validate(launch.recipe)
    return ServerProvenance(
        engine="sglang",
        engine_version=launch.engine_version,
        launch_argv=tuple(launch.argv),
        env_allowlisted=recipe.env,
        model_id=served_model_name(recipe),
        model_path=launch.model_path,
        server_instance_id=launch.id,
        profile=profile.name,
        profile_version=launch.profile_version,
    )


def host_provenance(node: Node, launch: Launch) -> HostProvenance:
    """Return what is known of a node and of the GPUs that a launch has there."""
    inventory = node.inventory or {}
    cores = inventory.get("cpu_count")
    return HostProvenance(
        host_id=node.id,
        gpu_model=launch.gpu_name,
        gpu_count_used=len(launch.gpus),
        gpu_uuids=tuple(gpu["uuid"] for gpu in launch.gpus),
        driver_version=inventory.get("driver_version"),
        cpu=f"{cores} CPUs" if cores else None,
        kernel=inventory.get("kernel"),
    )


def provenance_document(server: Server, launch: Launch, profile: Profile, node: Node) -> dict[str, Any]:
    """Return both as plain values, with names and what has no place in a result."""
    return {
        "server": server_provenance(launch, profile).model_dump(mode="json"),
        "host": host_provenance(node, launch).model_dump(mode="json"),
        "server_name": server.name,
        "node_name": node.name,
        "launch_number": launch.number,
        "launched_at": launch.created_at.isoformat(),
        "port": launch.port,
        "gpus": launch.gpus,
        "is_adopted": launch.is_adopted,
        "recipe": launch.recipe,
        "hostname": (node.inventory or {}).get("hostname"),
        "memory_total_mib": (node.inventory or {}).get("memory_total_mib"),
    }


def foreign_processes(fact: GpuHoldersFact | None, launch_id: str, gpu_uuids: Collection[str]) -> int | None:
    """Return how many processes that are not of a launch hold memory of its GPUs; None when nobody could say."""
    if fact is None or fact.error is not None or not gpu_uuids:
        return None
    return len(
        {
            holder.pid
            for uuid, holder in fact.holders
            if uuid in gpu_uuids and holder.launch_id != launch_id and not holder.is_idle_server
        }
    )


def served_model_name(recipe: Recipe) -> str:
    """Return the name under which clients ask for the model."""
    name = recipe.server_args.get("served-model-name")
    return name if isinstance(name, str) and name else recipe.model_path
