"""The far side of watch_fleet.py: one process whose SSH servers play any number of nodes with a ready server each.

A login is a node, whatever its user is called. The observer's lines come from a timer instead of a process: as on a
real node each second the effort that has changed and a beat, every few seconds a line of the log and the counters that
are wanted, every 15 s the holders of the GPUs. Requests through a channel are answered as the engine does. Told
`break closed`, `break refused` or `break changed` on its standard input, it does that to the server of that name; it
ends when its input does.
"""

import argparse
import asyncio
import itertools
import json
import random
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh
import uvloop
from fake_facts import BOOT_ID, Launch, holders, plain_inventory

FAULTS = ("closed", "refused", "changed")
_TICK_S = 1.0
_GPUS_EVERY = 15
_SPACE_EVERY = 10
_END_OF_HEAD = b"\r\n\r\n"
_HEALTHY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_CRYPTO = {
    "kex_algs": ["curve25519-sha256"],
    "encryption_algs": ["aes128-gcm@openssh.com"],
    "compression_algs": ["none"],
}


class Far:
    """The servers: one for all sound nodes, and one for each fault."""

    def __init__(self, *, client_key: asyncssh.SSHKey, log_every_s: int, verb: "type[Verb] | None" = None) -> None:
        self.log_every_s = log_every_s
        self.verb = verb or Verb
        self.client_key = client_key
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.refusing: set[int] = set()
        self.logins: dict[int, set[asyncssh.SSHServerConnection]] = {}
        self._acceptors: dict[int, asyncssh.SSHAcceptor] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def listen(self, *, port: int = 0, host_key: asyncssh.SSHKey | None = None) -> int:
        """Open one more server and return its port."""
        chosen = port or free_port()
        self._acceptors[chosen] = await asyncssh.listen(
            "127.0.0.1",
            chosen,
            server_factory=lambda: _Login(self, chosen),
            server_host_keys=[host_key or self.host_key],
            encoding=None,
            backlog=4096,
            login_timeout=120,
            **_CRYPTO,
        )
        return chosen

    async def spoil(self, port: int, fault: str) -> None:
        """Break a server in one way and end its connections, so that the next login meets it."""
        if fault == "refused":
            self.refusing.add(port)
        else:
            self._acceptors.pop(port).close()
        if fault == "changed":
            await self.listen(port=port, host_key=asyncssh.generate_private_key("ssh-ed25519"))
        for connection in self.logins.pop(port, set()):
            connection.abort()


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Login(asyncssh.SSHServer):
    """One connection: a node of its own."""

    def __init__(self, far: Far, port: int) -> None:
        self._far = far
        self._port = port

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._far.logins.setdefault(self._port, set()).add(conn)

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        del username
        return self._port not in self._far.refusing and key == self._far.client_key

    def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        return self._far.verb(self._far)

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> asyncssh.SSHTCPSession[bytes]:
        del dest_host, dest_port, orig_host, orig_port
        return _Engine()


class Verb(asyncssh.SSHServerSession[bytes]):
    """One run of Vigil's bootstrap: a payload, then either one answer or the stream of the observer."""

    def __init__(self, far: Far) -> None:
        self.far = far
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._held = bytearray()
        self._take: Callable[[], bool] = self._take_payload
        self._launches: list[Launch] = []
        self._timer: asyncio.TimerHandle | None = None
        self._beats = itertools.count()
        self._metrics: dict[str, Any] | None = None

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        """Take the channel."""
        self._channel = chan

    def exec_requested(self, command: str) -> bool:
        """Run nothing but Vigil's bootstrap."""
        return command.startswith("/bin/sh -c ")

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Take the payload, then what is to be watched."""
        del datatype
        self._held += data
        while self._take():
            pass

    def connection_lost(self, exc: Exception | None) -> None:
        """Say no more."""
        del exc
        self._channel = None
        if self._timer:
            self._timer.cancel()

    def _take_payload(self) -> bool:
        head, found, body = bytes(self._held).partition(b"\n")
        if not found or len(body) < int(head):
            return False
        order = json.loads(body[: int(head)])
        self._held = self._held[len(head) + 1 + int(head) :]
        self._take = self._take_watch
        if order["verb"] == "observe":
            self._metrics = order["request"].get("metrics")
            self._say([{"k": "hello", "boot_id": BOOT_ID, "at": time.time(), "pid": 4242, "protocol": 1}])
            self._timer = asyncio.get_running_loop().call_later(random.random(), self._tick)  # noqa: S311
            return True
        self._answer(order["verb"], order["request"])
        return False

    def _take_watch(self) -> bool:
        line, found, rest = bytes(self._held).partition(b"\n")
        if not found:
            return False
        self._held = bytearray(rest)
        known = {launch.id: launch for launch in self._launches}
        wanted = json.loads(line)["watch"]
        self._launches = [known.get(row["launch"]) or self.launch(row["launch"], row["log_offset"]) for row in wanted]
        self._say([fact for launch in self._launches if launch.id not in known for fact in launch.first_facts()])
        return True

    def _tick(self) -> None:
        number = next(self._beats)
        said: list[dict[str, Any]] = []
        for launch in self._launches:
            has_line = number % self.far.log_every_s == 0
            said += launch.facts(has_line=has_line)
            if self._metrics and number % max(1, round(self._metrics["every_s"])) == 0:
                said.append(launch.metrics(self._metrics["names"]))
        if number % _GPUS_EVERY == 0:
            said += [holders(launch.id) for launch in self._launches[:1] if launch.is_running]
        space = {"disk_free_mib": 2_101_044, "shm_free_mib": 1_031_900} if number % _SPACE_EVERY == 0 else {}
        said.append({"k": "beat", "at": time.time(), **space})
        self._say(said)
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def _say(self, lines: list[dict[str, Any]]) -> None:
        if self._channel is not None and not self._channel.is_closing() and lines:
            self._channel.write(b"".join(json.dumps(line).encode("ascii") + b"\n" for line in lines))

    def launch(self, launch_id: str, log_offset: int) -> Launch:
        """Return a launch that is to be watched from now on."""
        return Launch(launch_id, log_offset)

    def result(self, verb: str, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return what a verb answers; None for one that this node does not have."""
        del request
        match verb:
            case "inventory":
                return plain_inventory()
            case "engine_version":
                return {"version": "0.5.23"}
            case "find_engines":
                return {"engines": []}
        return None

    def _answer(self, verb: str, request: dict[str, Any]) -> None:
        result = self.result(verb, request)
        answer = {"failed": f"the fake node has no {verb}"} if result is None else {"result": result}
        if self._channel is not None:
            self._channel.write(b"VIGIL1 " + json.dumps(answer).encode("ascii") + b"\n")
            self._channel.exit(0)


class _Engine(asyncssh.SSHTCPSession[bytes]):
    """A TCP channel to the server's port: it is asked for nothing but its health, and answers at once."""

    def __init__(self) -> None:
        self._channel: asyncssh.SSHTCPChannel[bytes] | None = None
        self._held = b""

    def connection_made(self, chan: asyncssh.SSHTCPChannel[bytes]) -> None:
        self._channel = chan

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        del datatype
        *asked, self._held = (self._held + data).split(_END_OF_HEAD)
        if asked and self._channel and not self._channel.is_closing():
            self._channel.write(_HEALTHY * len(asked))


async def serve(verb: type[Verb], take_order: Callable[[Far, dict[str, int], list[str]], Awaitable[None]]) -> None:
    """Serve nodes with such verbs until standard input ends; each line of it is an order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client-key", type=Path, required=True, help="the public key that may log in")
    parser.add_argument("--log-every-s", type=int, default=5)
    arguments = parser.parse_args()
    client_key = asyncssh.read_public_key(str(arguments.client_key))
    far = Far(client_key=client_key, log_every_s=arguments.log_every_s, verb=verb)
    ports = {name: await far.listen() for name in ("sound", *FAULTS)}
    line = " ".join(far.host_key.export_public_key().decode("ascii").split()[:2])
    print(json.dumps({"ports": ports, "host_key": line}), flush=True)
    while order := (await asyncio.to_thread(sys.stdin.readline)).split():
        await take_order(far, ports, order)


async def _break(far: Far, ports: dict[str, int], order: list[str]) -> None:
    await far.spoil(ports[order[1]], order[1])


if __name__ == "__main__":
    uvloop.run(serve(Verb, _break))
