"""A real OpenSSH server for tests: random loopback port, own host key, own client key, own home; ended by pid."""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from service.nodes.endpoint import Credential, Endpoint, KeyFile

START_PATIENCE_S = 10.0


class SshdMissingError(RuntimeError):
    """There is no sshd on this machine."""


class Sshd:
    """One sshd. Sessions get `home` as HOME, so `~/.vigil` of a test lies in its own directory.

    `directives` are lines of sshd_config; `environment` is set in every session.
    """

    def __init__(
        self,
        root: Path,
        *,
        directives: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        key_type: str = "ed25519",
    ) -> None:
        found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if found is None:
            raise SshdMissingError("these tests need OpenSSH's sshd: apt-get install openssh-server")
        self.root = root
        self.home = root / "home"
        self.home.mkdir(parents=True, mode=0o700)
        self.user = getpass.getuser()
        self.key_path = root / "client_key"
        self.port = free_port()
        self.log_path = root / "sshd.log"
        self._binary = found
        self._directives = tuple(directives)
        self._environment = {"HOME": str(self.home), **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        make_key(self.key_path)
        self.authorise(self.key_path)
        self.change_host_key(key_type)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def host_key(self) -> str:
        """Return the public host key as it gets pinned."""
        return " ".join((self.root / "host_key.pub").read_text().split()[:2])

    @property
    def host_key_fingerprint(self) -> str:
        """Return what `ssh-keygen -lf` says about the host key."""
        said = subprocess.check_output(["ssh-keygen", "-lf", self.root / "host_key.pub"], text=True)
        return said.split()[1]

    def endpoint(
        self,
        *,
        credential: Credential | None = None,
        is_pinned: bool = True,
        jump: Endpoint | None = None,
    ) -> Endpoint:
        """Return how to reach this server."""
        return Endpoint(
            address="127.0.0.1",
            port=self.port,
            user=self.user,
            credential=credential or KeyFile(str(self.key_path)),
            host_key=self.host_key if is_pinned else None,
            jump=jump,
        )

    def authorise(self, key_path: Path) -> None:
        """Let this key in, and no other."""
        shutil.copy(key_path.with_name(f"{key_path.name}.pub"), self.root / "authorized_keys")

    def change_host_key(self, key_type: str = "ed25519") -> None:
        """Make a new host key; a running server offers it after its next start."""
        make_key(self.root / "host_key", key_type=key_type)

    def start(self) -> None:
        """Start the server and return when it answers."""
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        config = self.root / "sshd_config"
        config.write_text(self._config())
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen([self._binary, "-D", "-e", "-f", config], stderr=log)
        deadline = time.monotonic() + START_PATIENCE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sshd did not start: {self.log_path.read_text()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End the server and its sessions. What was started in a session of its own lives on."""
        if self._process is None:
            return
        self.resume()
        self.drop_connections()
        self._process.kill()
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        """Freeze the server and its sessions: connections are taken by the kernel and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen server go on."""
        self._signal(signal.SIGCONT)

    def drop_connections(self) -> None:
        """Kill every session's sshd, as a lost network does; the commands that ran there live on."""
        for pid in self._session_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _config(self) -> str:
        variables = " ".join(f'"{name}={value}"' for name, value in self._environment.items())
        lines = [
            *self._directives,
            "ListenAddress 127.0.0.1",
            f"Port {self.port}",
            f"HostKey {self.root / 'host_key'}",
            f"AuthorizedKeysFile {self.root / 'authorized_keys'}",
            f"PidFile {self.root / 'sshd.pid'}",
            f"SetEnv {variables}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes",
            "LogLevel VERBOSE",
        ]
        return "\n".join(lines) + "\n"

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
            return probe.recv(4) == b"SSH-"
        return False

    def _signal(self, number: signal.Signals) -> None:
        if self._process and self._process.poll() is None:
            for pid in (self._process.pid, *self._session_pids()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _session_pids(self) -> list[int]:
        return list(_sshd_children(self._process.pid)) if self._process else []


def make_key(path: Path, *, key_type: str = "ed25519", passphrase: str = "") -> None:
    """Make a key pair at `path`, in place of one that may be there."""
    path.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", key_type, "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def free_port() -> int:
    """Return a loopback port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _sshd_children(pid: int) -> Iterator[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in map(int, children):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text().startswith("sshd"):
                yield child
                yield from _sshd_children(child)
