"""Takes a node in, launches a server on it, follows it to ready and stops it, by a client made from openapi.json."""

import json
import os
import time
from typing import TypeVar
from uuid import uuid4

from vigil_client import AuthenticatedClient
from vigil_client.api.nodes import create_node, get_node
from vigil_client.api.operations import get_operation
from vigil_client.api.profiles import create_profile
from vigil_client.api.servers import create_server, get_server, launch_server, stop_server, wait_for_server
from vigil_client.models import (
    KeyFileCredential,
    NodeCreate,
    NodePublic,
    OperationPublic,
    OperationState,
    Problem,
    Profile,
    ProfileCreate,
    ProfileEnv,
    ServerCreate,
    State,
    WaitForServerUntil,
)

Value = TypeVar("Value")

client = AuthenticatedClient(os.environ["VIGIL_URL"], token=os.environ["VIGIL_TOKEN"])


def main() -> None:
    """Do it, and print what was seen."""
    node = take_in("atlas")
    env = ProfileEnv.from_dict({"VIGIL_SIM_SCRIPT": "fast"})
    recipe = Profile(python=os.environ["ENGINE_PYTHON"], model_path=os.environ["MODEL_PATH"], gpu_count=1, env=env)
    value_of(create_profile.sync(client=client, body=ProfileCreate(name="tiny", recipe=recipe)))
    value_of(create_server.sync(client=client, body=ServerCreate(name="one", profile="tiny", node="atlas")))
    up = launch("one")
    states = [value_of(get_server.sync("one", client=client)).state]
    down = follow(value_of(stop_server.sync("one", client=client)))
    states.append(value_of(get_server.sync("one", client=client)).state)
    assert node.inventory
    assert states == [State.READY, State.STOPPED]
    assert up.ended_at
    assert down.ended_at
    assert up.ended_at < down.ended_at, "instants are instants"
    print(json.dumps({"gpus": len(node.inventory.gpus), "up": up.state, "down": down.state, "states": states}))


# What docs/clients.md shows begins here.
def launch(server: str) -> OperationPublic:
    """Launch a server and return the operation once it is ready."""
    accepted = value_of(launch_server.sync(server, client=client, idempotency_key=str(uuid4())))
    answer = wait_for_server.sync(server, client=client, until=WaitForServerUntil.READY, timeout_s=60)
    if isinstance(answer, Problem):
        raise SystemExit(f"{answer.code}: {answer.detail} {answer.remedy}")
    return follow(accepted)


# Here it ends.


def follow(accepted: OperationPublic) -> OperationPublic:
    """Return an operation once it has ended."""
    seen = accepted
    while seen.state is OperationState.RUNNING:
        time.sleep(0.1)
        seen = value_of(get_operation.sync(accepted.id, client=client))
    return seen


def take_in(name: str) -> NodePublic:
    """Register a node and return it once it is heard."""
    key = KeyFileCredential(kind="key_file", path=os.environ["NODE_KEY"])
    body = NodeCreate(
        name=name,
        address=os.environ["NODE_ADDRESS"],
        port=int(os.environ["NODE_PORT"]),
        user=os.environ["NODE_USER"],
        credential=key,
        trust_on_first_use=True,
        engines=[os.environ["ENGINE_PYTHON"]],
    )
    seen = value_of(create_node.sync(client=client, body=body))
    while seen.contact.state != "ok":
        time.sleep(0.1)
        seen = value_of(get_node.sync(name, client=client))
    return seen


def value_of(answer: Value | Problem | None) -> Value:
    """Return what was asked for; a refusal ends the program."""
    if answer is None or isinstance(answer, Problem):
        raise SystemExit(f"refused: {answer}")
    return answer


if __name__ == "__main__":
    main()
