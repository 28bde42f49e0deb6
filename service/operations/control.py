"""The parts of the control plane that operations, watchers and the API share."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from service.clock import utc_now
from service.db.engine import Database
from service.db.tables import Node
from service.nodes.endpoint import Agent, Credential, Endpoint, KeyFile
from service.operations.changes import EVENTS_WRITTEN, Changes
from service.operations.contacts import ContactBook
from service.operations.event_feed import EventFeed
from service.operations.live import Live
from service.remote.connections import Connections
from service.remote.node import NodeSession
from service.settings import Settings
from service.sglang.judgement import JudgementCache


@dataclass(slots=True)
class Control:
    """One of each, made by the composition root and handed down."""

    settings: Settings
    database: Database
    connections: Connections
    changes: Changes = field(default_factory=Changes)
    live: Live = field(default_factory=Live)
    judgements: JudgementCache = field(default_factory=JudgementCache)
    judging: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """Held, by node, while an engine there judges arguments."""
    now: Callable[[], datetime] = utc_now
    monotonic_s: Callable[[], float] = time.monotonic
    """A clock that nobody sets: it tells that `now` was set."""
    contacts: ContactBook = field(init=False)
    feed: EventFeed = field(init=False)

    def __post_init__(self) -> None:
        self.contacts = ContactBook(self.database)
        self.feed = EventFeed(self.database, self.changes)
        self.database.on_event = lambda: self.changes.publish(EVENTS_WRITTEN)

    async def node_session(self, node: Node) -> NodeSession:
        """Return a session on the node's one connection, opened if need be; a RemoteError says why not.

        RemoteTimeout when it takes longer than one attempt may: after a start a thousand nodes queue for theirs, and
        who asks for one node gets an answer meanwhile. The node's watcher alone waits for its turn.
        """
        patience_s = self.settings.connect_deadline_s
        connection = await self.connections.get(node.id, endpoint_of(node), patience_s=patience_s)
        return NodeSession(connection)


def endpoint_of(node: Node) -> Endpoint:
    """Return where a node is and how to log in, with the host keys that are pinned."""
    jump = node.jump
    return Endpoint(
        address=node.address,
        port=node.port,
        user=node.user,
        credential=credential_of(node.credential),
        host_key=node.host_key,
        jump=None
        if jump is None
        else Endpoint(
            address=jump["address"],
            port=jump["port"],
            user=jump["user"],
            credential=credential_of(jump["credential"]),
            host_key=jump.get("host_key"),
        ),
    )


def credential_of(stored: dict[str, str]) -> Credential:
    """Return a credential as the node's row keeps it."""
    return Agent() if stored["kind"] == "agent" else KeyFile(stored["path"])
