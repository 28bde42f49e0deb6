"""Where Vigil keeps things on a node: ~/.vigil, with one directory (mode 700) per launch."""

from __future__ import annotations

import os
import re
from typing import List, Optional, Tuple

from .answering import Refused, write_all

SHM = "/dev/shm"  # noqa: S108  # it is the subject, not a place for our files
ADOPTED = "adopted"
"""The empty file that tells a launch of a process that Vigil did not start; no file's content decides whom to kill."""
LAUNCH_ID = re.compile(r"[a-z0-9_]{1,40}")


def root() -> str:
    """Return the directory of Vigil in the user's home."""
    return os.path.join(os.path.expanduser("~"), ".vigil")


def launches_directory() -> str:
    """Return the directory that holds one directory per launch."""
    return os.path.join(root(), "launches")


def launch_directory(launch_id: str) -> str:
    """Return where a launch lies, whether it is there or not."""
    if not isinstance(launch_id, str) or not LAUNCH_ID.fullmatch(launch_id):
        raise Refused("order_invalid", "not a launch id: %r" % (launch_id,))
    return os.path.join(launches_directory(), launch_id)


def existing_launch(launch_id: str) -> str:
    """Return the directory of a launch that must be there."""
    directory = launch_directory(launch_id)
    if not os.path.isdir(directory):
        raise Refused("launch_absent", "this node has no launch %s" % launch_id)
    return directory


def forbid_start(directory: str) -> bool:
    """Make sure that a launch which was not started never will be; tell whether that is so.

    A start and its end may be asked for at the same moment, on two channels: whoever makes `lock` first decides.
    """
    make_private_directory(root())
    make_private_directory(launches_directory())
    make_private_directory(directory)
    try:
        os.mkdir(os.path.join(directory, "lock"), 0o700)
    except FileExistsError:
        return is_forbidden(directory)
    except OSError as error:
        raise Refused("directory_unusable", "%s: %s" % (directory, error.strerror)) from error
    write_private_file(os.path.join(directory, "forbidden"), b"")
    return True


def is_forbidden(directory: str) -> bool:
    """Tell whether the launch was ended before it began."""
    return os.path.exists(os.path.join(directory, "forbidden"))


def is_adopted(directory: str) -> bool:
    """Tell whether the launch's process was started by somebody else: then only its descendants belong to it."""
    return os.path.lexists(os.path.join(directory, ADOPTED))


def launch_ids() -> List[str]:
    """Return the launches that have a directory, oldest id first."""
    try:
        names = os.listdir(launches_directory())
    except OSError:
        return []
    return sorted(name for name in names if LAUNCH_ID.fullmatch(name))


def make_private_directory(path: str) -> None:
    """Make a directory that only its owner may enter; refuse one that belongs to somebody else."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        facts = os.stat(path)
        if facts.st_uid != os.geteuid():
            raise Refused("directory_unusable", "%s belongs to uid %d" % (path, facts.st_uid))
        if facts.st_mode & 0o077:
            os.chmod(path, 0o700)
    except OSError as error:
        raise Refused("directory_unusable", "%s: %s" % (path, error.strerror)) from error


def write_private_file(path: str, data: bytes) -> None:
    """Write a file that only its owner may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def append_private_file(path: str, data: bytes) -> None:
    """Add to a file that only its owner may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def read_file(path: str) -> Optional[bytes]:
    """Return a file's bytes, None when it cannot be read. Good for /proc, whose files have no size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    parts: List[bytes] = []
    try:
        while True:
            part = os.read(descriptor, 65536)
            if not part:
                return b"".join(parts)
            parts.append(part)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_pair(path: str) -> Optional[Tuple[int, int]]:
    """Return the two whole numbers that a file consists of, None when it is absent or not complete."""
    words = (read_file(path) or b"").split()
    try:
        first, second = words
        return int(first), int(second)
    except ValueError:
        return None
