"""What is read from /proc: real lines, odd names, strangers' sockets, and secrets on command lines."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from service.remote.on_node import proc, sockets
from service.remote.on_node.listening import PortWatch, relevant
from service.remote.on_node.sockets import Listener
from tests.remote.conftest import eventually

REST = b" S 1 77 88 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 9 0 271998 1000 512 18446744073709551615"


@pytest.mark.parametrize("name", [b"python3", b"tmux: server", b"a) b (c", b"new\nline", b") S 9 9 9"])
def test_a_stat_line_is_read_whatever_the_name(name: bytes) -> None:
    stat = proc.parse_stat(b"4242 (" + name + b")" + REST)
    assert stat == proc.Stat(4242, "S", 1, 77, 88, 127, 9, 271998, 512)


@pytest.mark.parametrize("text", [b"", b"4242", b"4242 (x) S 1 2", b"garbage"])
def test_a_cut_stat_line_is_no_process(text: bytes) -> None:
    assert proc.parse_stat(text) is None


def test_a_process_is_its_pid_and_its_start_time() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        stat = proc.read_stat(process.pid)
        assert stat
        assert proc.is_running(process.pid, stat.start_ticks)
        assert not proc.is_running(process.pid, stat.start_ticks + 1)
        process.kill()
        zombie = eventually_zombie(process.pid)
        assert not zombie.is_alive
        assert not proc.is_running(process.pid, stat.start_ticks)
    assert proc.read_stat(process.pid) is None


def eventually_zombie(pid: int) -> proc.Stat:
    while True:
        stat = proc.read_stat(pid)
        assert stat
        if stat.state == "Z":
            return stat


def test_a_dead_leader_with_living_threads_is_alive() -> None:
    stat = proc.parse_stat(b"1 (x)" + REST.replace(b" S ", b" Z ", 1))
    assert stat
    assert stat.is_alive
    assert not stat._replace(threads=1).is_alive


async def test_a_mark_is_found_and_its_absence_told_from_silence() -> None:
    cases = [
        ({"VIGIL_LAUNCH_ID": "ln_1"}, ("ln_1", True)),
        ({"A": "VIGIL_LAUNCH_ID=no", "VIGIL_LAUNCH_ID": "ln_2", "PATH": "/bin"}, ("ln_2", True)),
        ({"XVIGIL_LAUNCH_ID": "ln_3", "PATH": "/bin"}, (None, True)),
        ({}, (None, False)),
    ]
    for environment, expected in cases:
        with subprocess.Popen(["/bin/sleep", "60"], env=environment) as process:
            await eventually(lambda: proc.command(process.pid) == "/bin/sleep 60")
            assert proc.mark_of(process.pid) == expected
            process.kill()
    assert proc.mark_of(2**22 + 1) == (None, False)


TCP = b"""  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4A36 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 329393 1 0000000000000000
   1: 00000000:4A37 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 329394 1 0000000000000000
   2: 0100007F:4A36 0100007F:C0DE 01 00000000:00000000 00:00000000 00000000     0        0 329395 1 0000000000000000
   3: 0100007F:C0DE 0100007F:4A36 01 00000000:00000000 00:00000000 00000000     0        0 329396 1 0000000000000000
"""
TCP6 = (
    b"   0: 00000000000000000000000000000000:4A36 00000000000000000000000000000000:0000 0A 00000000:00000000 "
    b"00:00000000 00000000     0        0 400001 1 0000000000000000\n"
    b"   1: 00000000000000000000000001000000:4A36 00000000000000000000000000000000:0000 0A 00000000:00000000 "
    b"00:00000000 00000000     0        0 400002 1 0000000000000000\n"
    b"   2: 0000000000000000FFFF00000100007F:4A36 00000000000000000000000000000000:0000 0A 00000000:00000000 "
    b"00:00000000 00000000     0        0 400003 1 0000000000000000\n"
)


def test_listeners_are_read_from_both_tables() -> None:
    assert sockets.parse_listeners(TCP.splitlines(), 0x4A36) == [Listener("127.0.0.1", 0, 329393)]
    assert sockets.parse_listeners(TCP.splitlines(), 0x4A37) == [Listener("0.0.0.0", 1000, 329394)]
    assert sockets.parse_listeners(TCP.splitlines(), 0xC0DE) == []
    assert sockets.parse_listeners(TCP6.splitlines(), 0x4A36) == [
        Listener("::", 0, 400001),
        Listener("::1", 0, 400002),
        Listener("127.0.0.1", 0, 400003),
    ]


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("127.0.0.1", ["127.0.0.1"]),
        ("10.1.2.3", ["10.1.2.3"]),
        ("10.9.9.9", ["0.0.0.0", "::"]),
        ("::1", ["0.0.0.0", "::"]),
        ("localhost", ["127.0.0.1", "0.0.0.0", "::", "10.1.2.3"]),
        ("0.0.0.0", ["0.0.0.0"]),
    ],
)
def test_a_request_reaches_the_exact_address_first(host: str, reached: list[str]) -> None:
    found = [Listener(address, 0, 1) for address in ("127.0.0.1", "0.0.0.0", "::", "10.1.2.3")]
    assert [socket.address for socket in relevant(found, host)] == reached


def test_only_the_rows_of_listeners_are_read(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_bytes(TCP + b"".join(TCP.splitlines(keepends=True)[3:] * 10_000))
    rows = list(sockets._listening_rows(str(table)))
    assert len(rows) == 3
    assert sockets.parse_listeners(rows, 0x4A37)


def test_a_port_is_watched_through_its_changes_of_hands() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        port_watch = PortWatch(port, "127.0.0.1")
        assert port_watch.look([])["owner"] == "other"
        assert port_watch.look([])["pid"] == os.getpid()
        ours = port_watch.look([os.getpid()])
        assert (ours["owner"], ours["pid"]) == ("ours", os.getpid())
        assert "pytest" in ours["command"]
    assert port_watch.look([os.getpid()]) == {"owner": "none", "pid": None, "command": None}


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--api-key", "sk-1", "--port", "1"], "--api-key *** --port 1"),
        (["--api-key=sk-1"], "--api-key=***"),
        (["--admin-api-key", "sk-1", "-m"], "--admin-api-key *** -m"),
        (["--hf_token", "x", "--password", "y"], "--hf_token *** --password ***"),
        (["OPENAI_API_KEY=sk-1"], "OPENAI_API_KEY=***"),
        (["--api-key", "--port", "1"], "--api-key --port 1"),
        (["--max-total-tokens", "20000", "--tokenizer-mode", "auto"], "--max-total-tokens 20000 --tokenizer-mode auto"),
        (["--ssl-keyfile", "/etc/key.pem", "key"], "--ssl-keyfile /etc/key.pem key"),
    ],
)
async def test_values_that_look_like_secrets_are_not_shown(argv: list[str], shown: str) -> None:
    program = "import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-S", "-c", program, *argv]) as process:
        try:
            await eventually(lambda: program in (proc.command(process.pid) or ""))
            assert proc.command(process.pid) == f"{sys.executable} -S -c {program} {shown}"
        finally:
            process.kill()


async def test_a_long_command_is_cut_and_a_dead_ones_is_its_name() -> None:
    with subprocess.Popen(["/bin/sleep", "60", "0" * 1000]) as process:
        await eventually(lambda: (proc.command(process.pid) or "").startswith("/bin/sleep"))
        command = proc.command(process.pid)
        assert command
        assert len(command) == proc.COMMAND_LIMIT + 3
        os.kill(process.pid, signal.SIGKILL)
        eventually_zombie(process.pid)
        assert proc.command(process.pid) == "sleep"
    assert proc.command(process.pid) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_kernel_and_proc_say_the_same(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {address}")
    with server:
        port = server.getsockname()[1]
        inode = os.fstat(server.fileno()).st_ino
        table = Path("/proc/net/tcp6" if ":" in address else "/proc/net/tcp").read_bytes()
        expected = [Listener(address, os.getuid(), inode)]
        assert sockets.parse_listeners(table.splitlines(), port) == expected
        assert sockets.ask_kernel(family, port) == expected
        assert sockets.listeners(port) == expected
    assert sockets.ask_kernel(family, port) == []


def test_where_netlink_is_not_proc_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_SOCK_DIAG", 31)  # a protocol that no kernel has
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert sockets.ask_kernel(socket.AF_INET, port) is None
        assert [found.address for found in sockets.listeners(port)] == ["127.0.0.1"]
