"""Taking nodes in: their host keys are fetched and shown, and pinned when an operator confirms them."""

import base64
import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from service.db.tables import Node
from service.errors import HostKeyMismatch, InvalidInput
from service.ids import new_id
from service.nodes.contact import Contact
from service.nodes.endpoint import Endpoint, HostKey
from service.operations.control import Control, endpoint_of
from service.remote.credentials import check_key_file
from service.remote.ssh import fetch_host_key


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What an operator says of a new node; credentials as the node's row keeps them."""

    name: str
    address: str
    port: int
    user: str
    credential: dict[str, str]
    jump: dict[str, Any] | None
    engines: tuple[str, ...]
    first_port: int
    last_port: int
    trust_on_first_use: bool


async def enroll(control: Control, enrolment: Enrolment, *, at: datetime) -> Node:
    """Return the row of a new node with the host key it offers, pinned at once on request.

    Nothing is written. CredentialUnusable, NodeUnreachable or RemoteTimeout say what is wrong. Behind a jump host
    whose key is not confirmed, the node's own key cannot be fetched yet: it is offered after that.
    """
    node = _row(enrolment, at)
    require_usable(node.credential)
    if node.jump is not None:
        require_usable(node.jump["credential"])
    await _fetch_next_key(control, node)
    while enrolment.trust_on_first_use and (offered := offered_key(node)) is not None:
        await confirm(control, node, offered.fingerprint)
    return node


async def confirm(control: Control, node: Node, fingerprint: str) -> None:
    """Pin the offered key that has this fingerprint, then fetch the next one that is missing.

    The jump host's key comes first. HostKeyMismatch if the fingerprint is not that of the offered key.
    """
    offered = offered_key(node)
    if offered is None:
        raise InvalidInput(f"node {node.name} offers no key that waits for confirmation")
    if offered.fingerprint != fingerprint:
        raise HostKeyMismatch(f"the key on offer has the fingerprint {offered.fingerprint}, not {fingerprint}")
    if node.jump is not None and node.jump.get("offered_host_key"):
        node.jump = {**node.jump, "host_key": offered.public_line, "offered_host_key": None}
        await _fetch_next_key(control, node)
    else:
        node.host_key = offered.public_line
        node.offered_host_key = None


async def offer_changed_key(control: Control, node: Node) -> None:
    """Fetch the key that a node shows now; if it is not the pinned one, offer it for confirmation."""
    if node.jump is not None:
        jump = endpoint_of(node).jump
        if jump is not None:
            shown = await _fetch(control, jump)
            if shown.public_line != node.jump.get("host_key"):
                node.jump = {**node.jump, "offered_host_key": shown.public_line}
                return
    shown = await _fetch(control, endpoint_of(node))
    node.offered_host_key = None if shown.public_line == node.host_key else shown.public_line


def offered_key(node: Node) -> HostKey | None:
    """Return the key that waits for confirmation: the jump host's first."""
    line = (node.jump or {}).get("offered_host_key") or node.offered_host_key
    return host_key_of(line) if line else None


def require_usable(credential: dict[str, str]) -> None:
    """Raise CredentialUnusable if a key file is not there or others may read it."""
    if credential["kind"] == "key_file":
        check_key_file(credential["path"])


def host_key_of(line: str) -> HostKey:
    """Return a public key line with its algorithm and the fingerprint that `ssh-keygen -lf` prints."""
    algorithm, encoded, *_ = line.split()
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(encoded)).digest()).decode().rstrip("=")
    return HostKey(algorithm=algorithm, public_line=line, fingerprint=f"SHA256:{digest}")


async def _fetch_next_key(control: Control, node: Node) -> None:
    endpoint = endpoint_of(node)
    if node.jump is not None and endpoint.jump is not None and endpoint.jump.host_key is None:
        shown = await _fetch(control, endpoint.jump)
        node.jump = {**node.jump, "offered_host_key": shown.public_line}
    elif node.host_key is None:
        node.offered_host_key = (await _fetch(control, endpoint)).public_line


async def _fetch(control: Control, endpoint: Endpoint) -> HostKey:
    return await fetch_host_key(replace(endpoint, host_key=None), deadline_s=control.settings.connect_deadline_s)


def _row(enrolment: Enrolment, at: datetime) -> Node:
    return Node(
        id=new_id("nd", at),
        name=enrolment.name,
        address=enrolment.address,
        port=enrolment.port,
        user=enrolment.user,
        credential=enrolment.credential,
        jump=enrolment.jump,
        engines=list(enrolment.engines),
        first_port=enrolment.first_port,
        last_port=enrolment.last_port,
        contact=Contact.UNKNOWN,
        contact_since_at=at,
        created_at=at,
    )
