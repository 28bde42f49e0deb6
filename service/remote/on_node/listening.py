"""Who listens on a launch's port: a process of the launch, or somebody else."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from . import proc, sockets
from .sockets import Listener

_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104  # read, not bound
NOBODY: Dict[str, Any] = {"owner": "none", "pid": None, "command": None}


class PortWatch:
    """Looks at one port again and again. Whose socket it is, is searched once, and again when the members change."""

    def __init__(self, port: int, host: str) -> None:
        self.port = port
        self.host = host
        self._ours: Dict[Tuple[int, Tuple[int, ...]], Optional[int]] = {}
        self._strangers: Dict[int, Optional[int]] = {}

    def look(self, members: List[int]) -> Dict[str, Any]:
        """Return owner (none, ours, other), pid and command.

        A socket on exactly the host's address gets its requests before one on a wildcard address.
        """
        found = relevant(sockets.listeners(self.port), self.host)
        if not found:
            return NOBODY
        team = tuple(sorted(members))
        self._ours = {
            (socket.inode, team): self._ours.get((socket.inode, team)) or sockets.socket_owner(socket.inode, members)
            for socket in found
        }
        ours = next((pid for pid in self._ours.values() if pid is not None), None)
        if ours is not None:
            return {"owner": "ours", "pid": ours, "command": proc.command(ours)}
        stranger = self._stranger(found[0].inode)
        return {"owner": "other", "pid": stranger, "command": proc.command(stranger) if stranger else None}

    def _stranger(self, inode: int) -> Optional[int]:
        """Return who else has the socket, from one look at all processes: on a large node that takes a second."""
        if inode not in self._strangers:
            self._strangers = {inode: sockets.socket_owner(inode, proc.pids())}
        return self._strangers[inode]


def relevant(found: List[Listener], host: str) -> List[Listener]:
    """Return the sockets that a request to `host` would reach; a name in place of an address reaches any."""
    exact = [socket for socket in found if socket.address == host]
    if exact:
        return exact
    is_address = ":" in host or host.replace(".", "").isdecimal()
    if is_address and host not in _WILDCARDS:
        return [socket for socket in found if socket.address in _WILDCARDS]
    return found
