"""Which sockets listen on a port, and whose they are.

The kernel is asked by netlink for the listeners of one port. /proc/net/tcp says the same, but to read it the kernel
walks the table of all connections, which takes it milliseconds on a large machine; it is the way where netlink is not.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Iterable, Iterator, List, NamedTuple, Optional

from .proc import open_files

_LISTEN = b"0A"
_MAPPED_IPV4 = b"\0" * 10 + b"\xff\xff"
_SOCK_DIAG = 4
_BY_FAMILY = 20
_DUMP = 0x301
_DONE = 3
_STATE_LISTEN = 10
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI2H4I4II2I")
_ANSWER = struct.Struct("=4B2s2s16s16s12s5I")
"""linux/inet_diag.h: inet_diag_req_v2 and inet_diag_msg; ports and addresses are in network order."""


class Listener(NamedTuple):
    """A listening TCP socket."""

    address: str
    uid: int
    inode: int


def listeners(port: int) -> List[Listener]:
    """Return the sockets that listen on a port; one on `::` is in the IPv6 list alone and serves IPv4 too."""
    found: List[Listener] = []
    for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        asked = ask_kernel(family, port)
        found += parse_listeners(_listening_rows("/proc/net/" + name), port) if asked is None else asked
    return found


def ask_kernel(family: int, port: int) -> Optional[List[Listener]]:
    """Return the listeners of a family on a port by netlink, None where the kernel does not answer that."""
    request = _REQUEST.pack(
        family, socket.IPPROTO_TCP, 0, 0, 1 << _STATE_LISTEN, socket.htons(port), 0, *[0] * 8, 0, 0, 0
    )
    header = _HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 1, 0)
    found: List[Listener] = []
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.settimeout(1)
            kernel.send(header + request)
            while True:
                data = kernel.recv(1 << 16)
                while data:
                    size, kind, _, _, _ = _HEADER.unpack_from(data)
                    if kind == _DONE:
                        return found
                    if kind != _BY_FAMILY:
                        return None
                    _, _, _, _, sport, _, source, _, _, _, _, _, uid, inode = _ANSWER.unpack_from(data, _HEADER.size)
                    if int.from_bytes(sport, "big") == port:
                        found.append(
                            Listener(_text_address(source[: 4 if family == socket.AF_INET else 16]), uid, inode)
                        )
                    data = data[(size + 3) & ~3 :]
    except (OSError, struct.error):
        return None


def parse_listeners(rows: Iterable[bytes], port: int) -> List[Listener]:
    """Return the listeners on a port among rows of /proc/net/tcp or tcp6 (columns 1, 3, 7 and 9)."""
    wanted = b":%04X" % port
    found = []
    for row in rows:
        if wanted in row:
            _, local, _, state, _, _, _, uid, _, inode = row.split(None, 10)[:10]
            if state == _LISTEN and local.endswith(wanted):
                found.append(Listener(_address(local.split(b":")[0]), int(uid), int(inode)))
    return found


def socket_owner(inode: int, among: Iterable[int]) -> Optional[int]:
    """Return the first of these processes that has the socket open; those of other users cannot be looked into."""
    wanted = "socket:[%d]" % inode
    for pid in among:
        if any(target == wanted for _, target in open_files(pid)):
            return pid
    return None


def _listening_rows(path: str) -> Iterator[bytes]:
    """Yield the rows of listening sockets: the kernel lists them first, so the thousands of others are not read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rest = b""
        while True:
            part = os.read(descriptor, 16384)
            if not part:
                return
            *rows, rest = (rest + part).split(b"\n")
            for row in rows:
                if row and b" 0A " not in row and b"local_address" not in row:
                    return
                yield row
    finally:
        os.close(descriptor)


def _address(text: bytes) -> str:
    """Return an address from the kernel's words in hexadecimal, each in the machine's (little-endian) order."""
    raw = bytes.fromhex(text.decode("ascii"))
    return _text_address(b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4)))


def _text_address(data: bytes) -> str:
    """Return an address as people write it; an IPv4 address in IPv6 clothes as the IPv4 address that it is."""
    data = data[12:] if data.startswith(_MAPPED_IPV4) else data
    return socket.inet_ntop(socket.AF_INET6 if len(data) == len(_MAPPED_IPV4) + 4 else socket.AF_INET, data)
