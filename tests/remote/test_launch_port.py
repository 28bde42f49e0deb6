"""Who listens on a port, and whether the engine could: judged against real sockets and real binds."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.preflights.node_port import check_port
from service.remote.node import NodeSession
from service.remote.on_node import launch_port, ownership, proc, sockets
from service.sglang.checks import Outcome
from tests.remote.conftest import Launches, eventually
from tests.remote.foreign import Yard
from tests.remote.looking import AS_ROOT, NOBODY, PYTHON, look, look_as, look_here, wish
from tests.sshd import Sshd, free_port

LISTEN = "import socket, sys, time; s = socket.create_server((sys.argv[1], int(sys.argv[2]))); time.sleep(60)"


@contextmanager
def listening(address: str, *, is_v6_only: bool = True, port: int = 0) -> Iterator[int]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as server:
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, is_v6_only)
        server.bind((address, port))
        server.listen()
        yield server.getsockname()[1]


async def is_bindable(host: str, port: int) -> bool:
    """Bind as the engine's HTTP server does."""
    try:
        server = await asyncio.start_server(lambda *_: None, host, port)
    except OSError:
        return False
    server.close()
    await server.wait_closed()
    return True


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::"])
@pytest.mark.parametrize("listener", ["127.0.0.1", "0.0.0.0", "::1", ":: alone", ":: for both"])
async def test_the_port_is_judged_as_the_engines_own_bind_would_end(host: str, listener: str) -> None:
    address, _, rest = listener.partition(" ")
    with listening(address, is_v6_only=rest != "for both") as port:
        seen = look_here(host=host, port=port)
        check = check_port(seen, wish(host, port))
        is_free = await is_bindable(host, port)
    assert seen.port
    (found,) = seen.port.listeners
    assert (found.address, found.pid, found.launch_id) == (address, os.getpid(), None)
    assert (check.outcome is Outcome.FAIL) == (not is_free), check
    if not is_free:
        assert f"pid {os.getpid()} of user" in check.found
        assert address in check.found


async def test_over_ssh_a_free_port_is_found_free_fast(node: NodeSession) -> None:
    began = time.monotonic()
    before = time.time()
    seen = await look(node)
    assert time.monotonic() - began < 10
    assert seen.port
    assert (seen.port.listeners, [trial.error for trial in seen.port.trials]) == ((), [None])
    assert before <= seen.began_at.timestamp() <= seen.ended_at.timestamp() <= time.time()
    assert seen.problems == {}


async def test_a_listener_of_a_launch_is_known_by_its_mark(node: NodeSession, launches: Launches) -> None:
    port = free_port()
    order = launches.order(PYTHON, "-c", LISTEN, "127.0.0.1", str(port), "--api-key", "sk-secret")
    answer = await node.stage_and_start(order)
    await eventually(lambda: sockets.listeners(port))
    seen = await look(node, port=port)
    assert seen.port
    (found,) = seen.port.listeners
    assert (found.pid, found.launch_id) == (answer.pid, order.launch_id)
    assert found.command
    assert "sk-secret" not in found.command
    assert check_port(seen, wish("127.0.0.1", port)).outcome is Outcome.FAIL
    own = check_port(seen, wish("127.0.0.1", port, own_launch_id=order.launch_id))
    assert own.outcome is not Outcome.FAIL


@pytest.fixture
async def yard(tmp_path: Path, node: NodeSession) -> AsyncIterator[Yard]:
    made = Yard(tmp_path, node)
    yield made
    made.clean_up()


async def test_an_adopted_launch_is_known_by_its_processes(
    yard: Yard, node: NodeSession, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = await yard.start()
    launch_id = f"ln_c{os.getpid()}"
    await node.adopt(launch_id, pid=foreign.found.pid, start_ticks=foreign.found.start_ticks, port=foreign.port)
    seen = await look(node, port=foreign.port)
    assert seen.port
    assert {listener.launch_id for listener in seen.port.listeners} == {launch_id}
    monkeypatch.setenv("HOME", str(sshd.home))
    launch_of = ownership.launch_finder()
    assert {pid for pid in proc.pids() if launch_of(pid) == launch_id} == set(foreign.found.member_pids)


@AS_ROOT
def test_whose_listener_it_is_may_be_hidden_and_its_user_is_not() -> None:
    with listening("127.0.0.1") as port:
        seen = look_as(NOBODY, port=port)
    assert seen.port
    (found,) = seen.port.listeners
    assert (found.pid, found.user, found.command) == (None, "root", None)
    check = check_port(seen, wish("127.0.0.1", port))
    assert check.outcome is Outcome.FAIL
    assert "a process of user root" in check.found


@AS_ROOT
def test_a_port_for_root_alone() -> None:
    bound = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()
    if int(bound) <= 1:
        pytest.skip("anybody may bind any port here")
    check = check_port(look_as(NOBODY, port=1), wish("127.0.0.1", 1))
    assert check.outcome is Outcome.FAIL
    assert "may not bind" in check.found


def test_a_port_in_use_by_a_connection_is_taken_though_nobody_listens() -> None:
    port = free_port()
    with listening("127.0.0.1") as target, socket.socket() as client:
        client.bind(("127.0.0.1", port))
        client.connect(("127.0.0.1", target))
        seen = look_here(port=port)
    assert seen.port
    assert (seen.port.listeners, seen.port.trials[0].error) == ((), "EADDRINUSE")
    check = check_port(seen, wish("127.0.0.1", port))
    assert check.outcome is Outcome.FAIL
    assert "does not listen" in check.found


def test_what_a_closed_connection_leaves_keeps_nobody_from_the_port() -> None:
    """Who closes first keeps its end of the connection waiting for a minute."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            server.accept()[0].close()
            assert client.recv(1) == b""
    seen = look_here(port=port)
    assert seen.port
    assert (seen.port.listeners, seen.port.trials[0].error) == ((), None)


def test_an_address_that_the_node_has_not() -> None:
    seen = look_here(host="192.0.2.1")
    assert seen.port
    assert seen.port.trials[0].error == "EADDRNOTAVAIL"
    assert "has no address 192.0.2.1" in check_port(seen, wish("192.0.2.1", 30000)).found


@pytest.mark.parametrize(("host", "tried"), [("", ["0.0.0.0"]), ("localhost", ["127.0.0.1"]), ("gpu-7.example", [])])
def test_a_name_is_not_resolved(host: str, tried: list[str]) -> None:
    seen = look_here(host=host)
    assert seen.port
    assert [trial.address for trial in seen.port.trials] == tried


@pytest.mark.parametrize(
    ("reserved", "expected"),
    [("", [32768, 60999]), ("40000", None), ("1,39999-40001", None), ("40001", [32768, 60999])],
)
def test_the_kernels_own_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reserved: str, expected: list[int] | None
) -> None:
    for name, text in (("_RANGE", "32768\t60999\n"), ("_RESERVED", f"{reserved}\n")):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(launch_port, name, str(tmp_path / name))
    assert launch_port._ephemeral(40000) == expected
    assert launch_port._ephemeral(30000) is None
