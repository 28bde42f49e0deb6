"""Runs the service so that it can reach nothing but this machine: `python -m tests.fuzz.closed_service`.

Requests that a machine made up name hosts and URLs that a machine made up. Every connection of the process and every
look-up of a name goes through an audit hook of the interpreter; for that it runs on asyncio's own loop, since uvloop
opens sockets below the interpreter.
"""

import ipaddress
import socket
import sys
from typing import Any

REFUSED = "only this machine is reachable in this test"


def keep_in(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what leads away from loopback; an audit hook."""
    if event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple) and not _is_here(str(address[0])):
            raise OSError(REFUSED)
    elif event in {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}:
        host = arguments[0]
        text = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        if text is not None and not _is_here(text):
            raise socket.gaierror(socket.EAI_NONAME, REFUSED)


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    sys.addaudithook(keep_in)
    from service.__main__ import main

    sys.argv = ["vigil", "serve"]
    main()
