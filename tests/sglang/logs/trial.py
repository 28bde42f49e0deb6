"""One observed run of a real engine: its process, log, health answers, members and what it leaves in /dev/shm."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals

SHM = Path("/dev/shm")
START_DEADLINE_S = 180.0
EXIT_DEADLINE_S = 300.0
REFUSED = "refused"
"""What `Trial.get` answers when nobody listens."""
TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Member:
    """A process of a launch, as /proc showed it."""

    pid: int
    parent_pid: int
    group: int
    session: int
    title: str
    has_launch_id: bool


@dataclass
class Trial:
    """A running engine; `story` collects what was seen, each line with the seconds since the start."""

    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    port: int
    launch_id: str
    story: list[str] = field(default_factory=list)
    api_key: str | None = None
    started: float = 0.0
    was_ready: bool = False
    exit_code: int | None = None
    shm_names: set[str] = field(default_factory=set)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the engine as the leader of its own session, stdout and stderr into the one log."""
        self.started = time.monotonic()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command,
                env={**self.environment, "VIGIL_LAUNCH_ID": self.launch_id, "SPT_NOENV": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The engine's main process."""
        assert self._process is not None
        return self._process.pid

    def say(self, text: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{time.monotonic() - self.started:7.1f} s  {text}")

    def get(self, path: str, *, timeout_s: float = 30.0, has_key: bool = True) -> str:
        """Return the status code of a GET as text, `REFUSED` or `TIMED_OUT`."""
        return self._ask(path, self._headers(has_key=has_key), None, timeout_s)[0]

    def post(self, path: str, body: object) -> tuple[str, bytes]:
        """Return status code and body of a POST of JSON."""
        headers = {**self._headers(has_key=True), "Content-Type": "application/json"}
        return self._ask(path, headers, json.dumps(body).encode(), 60.0)

    def await_ready(self) -> None:
        """Poll /health until it answers 200, telling each change of the answer; raise if the engine ends first."""
        self._follow_health(until="200")
        self.was_ready = True

    def await_health(self, answer: str) -> None:
        """Poll /health until it gives this answer."""
        self._follow_health(until=answer)

    def await_end_or_ready(self) -> None:
        """Wait until the engine has ended by itself or answers 200 to /health, whichever it does."""
        self._await(lambda: self._has_ended() or self.get("/health") == "200", "an end or a 200", START_DEADLINE_S)
        if self._has_ended():
            self.await_exit()
        else:
            self.say("/health: 200")
            self.was_ready = True

    def await_log(self, text: str, *, deadline_s: float = START_DEADLINE_S) -> None:
        """Wait until the log holds a text."""
        wanted = text.encode()
        self._await(lambda: wanted in self.log.read_bytes(), f"the log to say {text!r}", deadline_s)
        self.say(f"log says {text!r}")

    def await_exit(self, deadline_s: float = EXIT_DEADLINE_S) -> None:
        """Wait for the main process and tell its code as a shell would: 128 + the signal that ended it."""
        assert self._process is not None
        self._await(self._has_ended, "the engine to end", deadline_s)
        code = self._process.returncode
        self.exit_code = 128 - code if code < 0 else code
        self.say(f"main process ended, exit code {self.exit_code}")

    def await_gone(self, deadline_s: float = 30.0) -> None:
        """Wait until no process of the launch is left."""
        self._await(lambda: not self.members(), "every process to be gone", deadline_s)
        self.say("no process of the launch is left")

    def members(self) -> list[Member]:
        """Return the living processes that carry the launch id or descend from one, the main process first."""
        processes = {process.pid: process for process in _processes(self.launch_id)}
        ours = {pid for pid, process in processes.items() if process.has_launch_id or process.session == self.pid}
        return [processes[pid] for pid in sorted(ours, key=lambda pid: (pid != self.pid, pid))]

    def tell_members(self) -> None:
        """Put every member into the story, and note which files of /dev/shm they have open or mapped."""
        for member in self.members():
            mark = "has launch id" if member.has_launch_id else "LACKS launch id"
            place = "leader's group" if member.group == self.pid else f"group {member.group}"
            self.say(f"  pid {member.pid} (of {member.parent_pid}), {place}, {mark}: {member.title[:110]}")
            self.shm_names |= _shared_memory_of(member.pid)
        self.say(f"  /dev/shm in use: {sorted(self.shm_names)}")

    def send(self, number: Signals, title: str) -> None:
        """Signal the first member whose title holds a text."""
        member = next(member for member in self.members() if title in member.title)
        self.say(f"{number.name} to {title!r} (pid {member.pid})")
        os.kill(member.pid, number)

    def send_to_main(self, number: Signals) -> None:
        """Signal the main process."""
        self.say(f"{number.name} to the main process")
        os.kill(self.pid, number)

    def tell_shared_memory(self) -> None:
        """Put what the launch left in /dev/shm into the story."""
        left = sorted(name for name in self.shm_names if (SHM / name).exists())
        self.say(f"left in /dev/shm: {left}")

    def end(self) -> None:
        """Kill what is left of the launch and remove its files in /dev/shm."""
        for member in self.members():
            with suppress(ProcessLookupError):
                os.kill(member.pid, Signals.SIGKILL)
        assert self._process is not None
        self._process.wait()
        for name in self.shm_names:
            (SHM / name).unlink(missing_ok=True)

    def _headers(self, *, has_key: bool) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key and has_key else {}

    def _ask(self, path: str, headers: Mapping[str, str], body: bytes | None, timeout_s: float) -> tuple[str, bytes]:
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data=body, headers=dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as response:  # noqa: S310
                return str(response.status), response.read()
        except urllib.error.HTTPError as error:
            return str(error.code), error.read()
        except TimeoutError:
            return TIMED_OUT, b""
        except OSError as error:
            return (TIMED_OUT if "timed out" in str(error) else REFUSED), b""

    def _follow_health(self, *, until: str) -> None:
        answers: list[str] = []

        def is_there() -> bool:
            if self._has_ended():
                raise RuntimeError("the engine ended:\n" + "\n".join(self.story))
            asked = time.monotonic()
            answer = self.get("/health")
            if answers[-1:] != [answer]:
                self.say(f"/health: {answer} (after {time.monotonic() - asked:.2f} s)")
                answers.append(answer)
            return answer == until

        self._await(is_there, f"/health to answer {until}", START_DEADLINE_S)

    def _has_ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    def _await(self, is_true: Callable[[], bool], what: str, deadline_s: float) -> None:
        until = time.monotonic() + deadline_s
        while not is_true():
            if time.monotonic() > until:
                raise TimeoutError(f"waited {deadline_s:.0f} s for {what}:\n" + "\n".join(self.story))
            time.sleep(0.1)


def _processes(launch_id: str) -> Iterator[Member]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it ended while we looked
                yield _member(folder, launch_id)


def _member(folder: Path, launch_id: str) -> Member:
    state, parent, group, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
    if state == "Z":
        raise ProcessLookupError(folder.name)
    title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    mark = f"VIGIL_LAUNCH_ID={launch_id}".encode()
    has_launch_id = mark in (folder / "environ").read_bytes().split(b"\0")
    return Member(int(folder.name), int(parent), int(group), int(session), title, has_launch_id)


def _shared_memory_of(pid: int) -> set[str]:
    """Return the names in /dev/shm that a process has mapped, found by inode.

    The path in /proc/PID/maps misleads: a semaphore is created as sem.XXXXXX and renamed to sem.mp-NAME, and maps
    keeps the first name.
    """
    inodes: set[str] = set()
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "/dev/shm/" in line:
                inodes.add(line.split()[4])
    return {entry.name for entry in SHM.iterdir() if str(entry.lstat().st_ino) in inodes}
