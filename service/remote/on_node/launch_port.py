"""Whether an engine could listen on a port: who listens there now, and what the kernel says to a bind."""

from __future__ import annotations

import errno
import ipaddress
import pwd
import re
import socket
from typing import Any, Callable, Dict, List, Optional, Set

from . import proc
from .places import read_file
from .sockets import Listener, listeners

LISTENERS_LIMIT = 16
_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
_RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
_LOCALHOST = "localhost"
_ANY = "0.0.0.0"  # noqa: S104  # what an engine without a host would bind

LaunchOf = Callable[[int], Optional[str]]
"""Tells the launch that a process belongs to."""


def look_at_port(port: int, host: str, launch_of: LaunchOf) -> Dict[str, Any]:
    """Say who listens on the port, on any address, and whether the engine's address can be bound.

    The bind is the engine's own: with SO_REUSEADDR, and IPv6 by itself. Nothing listens and it is let go at once.
    """
    found = listeners(port)[:LISTENERS_LIMIT]
    holders = _holders({listener.inode for listener in found}) if found else {}
    return {
        "listeners": [_listener(listener, holders.get(listener.inode), launch_of) for listener in found],
        "trials": [{"address": address, "error": _bind(address, port)} for address in _addresses(host)],
        "ephemeral": _ephemeral(port),
    }


def _holders(inodes: Set[int]) -> Dict[int, int]:
    """Return a process for each socket, as far as this user may look, from one look at all processes."""
    wanted = {"socket:[%d]" % inode: inode for inode in inodes}
    found: Dict[int, int] = {}
    for pid in proc.pids():
        for _, target in proc.open_files(pid):
            if target in wanted:
                found.setdefault(wanted[target], pid)
        if len(found) == len(inodes):
            break
    return found


def _listener(listener: Listener, pid: Optional[int], launch_of: LaunchOf) -> Dict[str, Any]:
    return {
        "address": listener.address,
        "pid": pid,
        "user": _user(listener.uid),
        "command": proc.command(pid) if pid else None,
        "launch": launch_of(pid) if pid else None,
    }


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _addresses(host: str) -> List[str]:
    """Return the addresses to bind; none for a name, whose resolution may take longer than the whole look."""
    if host in ("", _LOCALHOST):
        return [_ANY if not host else "127.0.0.1"]
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        return []


def _bind(address: str, port: int) -> Optional[str]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            if family == socket.AF_INET6:
                trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((address, port))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return None


def _ephemeral(port: int) -> Optional[List[int]]:
    """Return the kernel's range for outgoing connections if the port lies in it and is not reserved."""
    bounds = [int(word) for word in (read_file(_RANGE) or b"").split()]
    if len(bounds) < 2 or not bounds[0] <= port <= bounds[1]:  # noqa: PLR2004
        return None
    reserved = (read_file(_RESERVED) or b"").decode("ascii", "replace")
    for low, _, high in re.findall(r"(\d+)(-(\d+))?", reserved):
        if int(low) <= port <= int(high or low):
            return None
    return bounds
