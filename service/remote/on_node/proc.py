"""What /proc says of processes; one is known by its pid and its start time, never by its pid alone."""

from __future__ import annotations

import os
import pwd
import re
from contextlib import suppress
from functools import lru_cache
from typing import Iterator, List, NamedTuple, Optional, Tuple

from .places import read_file

MARK = b"VIGIL_LAUNCH_ID="
COMMAND_LIMIT = 300
_STAT_WORDS = 22
"""How many fields after the name are needed: up to rss, field 24."""
_SECRET_NAME = re.compile(r"(^|[-_.])(api_?key|key|token|password|passwd|secret)$", re.IGNORECASE)
_SHORTENED = re.compile(r"--(ap|api|api-|api-ke?|adm[a-z-]*)")
"""How `--api-key` and `--admin-api-key` may be written: the engine's parser takes a beginning for the whole."""


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that are of use; times in clock ticks."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    cpu_ticks: int
    """Its own and those of the children it has waited for: compilers and the like live too short to be seen."""
    threads: int
    start_ticks: int
    rss_pages: int

    @property
    def is_alive(self) -> bool:
        """Tell a living process from one that nobody has reaped; a dead leader with live threads is alive."""
        return self.state not in "ZXx" or self.threads > 1


def parse_stat(text: bytes) -> Optional[Stat]:
    """Return the fields of a stat line. The name, second, may hold spaces and brackets: count from its last one."""
    head, _, tail = text.rpartition(b")")
    words = tail.split()
    if not head or len(words) < _STAT_WORDS:
        return None
    return Stat(
        pid=int(head.split(None, 1)[0]),
        state=words[0].decode("ascii"),
        parent=int(words[1]),
        group=int(words[2]),
        session=int(words[3]),
        cpu_ticks=sum(map(int, words[11:15])),
        threads=int(words[17]),
        start_ticks=int(words[19]),
        rss_pages=int(words[21]),
    )


def read_stat(pid: int) -> Optional[Stat]:
    """Return the process's stat, None when there is no such process."""
    text = read_file("/proc/%d/stat" % pid)
    return parse_stat(text) if text else None


def is_running(pid: int, start_ticks: int) -> bool:
    """Tell whether the process that started then is alive: another one with its pid is not it."""
    stat = read_stat(pid)
    return stat is not None and stat.start_ticks == start_ticks and stat.is_alive


def pids() -> List[int]:
    """Return every process id that this user may see."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def newest_pid() -> bytes:
    """Return the pid that was given out last: while it is the same, nothing has been started on the node."""
    return (read_file("/proc/loadavg") or b"").rpartition(b" ")[2]


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return the id that the kernel made up at this boot."""
    return (read_file("/proc/sys/kernel/random/boot_id") or b"").decode("ascii").strip()


def mark_of(pid: int) -> Tuple[Optional[str], bool]:
    """Return the launch that the process is marked with, and whether its environment tells anything at all.

    It tells nothing when it belongs to another user, is empty, or was overwritten by a process title.
    """
    text = read_file("/proc/%d/environ" % pid) or b""
    start = 0 if text.startswith(MARK) else text.find(b"\0" + MARK) + 1
    if not text.startswith(MARK, start):
        return None, b"PATH=" in text
    value = text[start + len(MARK) :].split(b"\0", 1)[0]
    return value.decode("ascii", "replace"), True


def command(pid: int) -> Optional[str]:
    """Return the command line in one line, shortened, without the values of what look like secrets."""
    own = words(pid)
    if own is None:
        return None
    joined = " ".join(without_secrets(own)).strip()
    if not joined:
        joined = (read_file("/proc/%d/comm" % pid) or b"").decode("utf-8", "replace").strip()
    return joined if len(joined) <= COMMAND_LIMIT else joined[:COMMAND_LIMIT] + "..."


def words(pid: int) -> Optional[List[str]]:
    """Return the command line word by word as it is, secrets and all; None when there is no such process."""
    text = read_file("/proc/%d/cmdline" % pid)
    return None if text is None else text.rstrip(b"\0").decode("utf-8", "replace").split("\0")


def without_secrets(line: List[str]) -> List[str]:
    """Return a command line with stars for the values of what look like secrets."""
    shown = list(line)
    for place, name in _secret_places(line):
        shown[place] = name + "***"
    return shown


def secrets_in(line: List[str]) -> List[str]:
    """Return the values of what look like secrets on a command line."""
    return [line[place][len(name) :] for place, name in _secret_places(line)]


def is_secret_name(name: str) -> bool:
    """Tell whether an option or a variable of this name holds a secret."""
    return bool(_SECRET_NAME.search(name) or _SHORTENED.fullmatch(name))


def user_of(pid: int) -> Optional[str]:
    """Return the name of the process's owner, its number when it has no name."""
    try:
        uid = os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def read_bytes(pid: int) -> Optional[int]:
    """Return how many bytes the process and the children it has waited for have fetched from storage.

    None when that is not ours to know.
    """
    text = read_file("/proc/%d/io" % pid) or b""
    for line in text.splitlines():
        if line.startswith(b"read_bytes:"):
            return int(line.split()[1])
    return None


def open_files(pid: int) -> Iterator[Tuple[str, str]]:
    """Yield the path of each descriptor of the process, and what it leads to."""
    directory = "/proc/%d/fd" % pid
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        path = directory + "/" + name
        with suppress(OSError):
            yield path, os.readlink(path)


def _secret_places(line: List[str]) -> Iterator[Tuple[int, str]]:
    """Yield the place of each word that holds a secret, and what stands before the secret in it."""
    follows = False
    for place, word in enumerate(line):
        name, equals, _ = word.partition("=")
        is_secret = is_secret_name(name)
        if follows and not word.startswith("--"):
            yield place, ""
        elif is_secret and equals:
            yield place, name + "="
        follows = is_secret and not equals and word.startswith("-")
