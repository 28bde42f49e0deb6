"""Whether the service may answer without tokens: only where nobody but this machine can ask."""

import ipaddress

LOCAL_NAME = "localhost"


def is_loopback(host: str) -> bool:
    """Tell whether an address, with or without brackets, is of this machine alone; of names only `localhost` is."""
    name = host.strip("[]").lower()
    if name == LOCAL_NAME:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_local_authority(authority: str) -> bool:
    """Tell whether a Host header, or an Origin without its scheme, names this machine by a loopback address.

    A page on the web may lead its visitor's browser here, by a form or by a name that it lets point to 127.0.0.1. The
    browser then says whose page it was, in Origin and Host.
    """
    bracketed, found, port = authority.rpartition(":")
    has_port = bool(found) and port.isdecimal() and (bracketed.endswith("]") or ":" not in bracketed)
    return is_loopback(bracketed if has_port else authority)


def is_local_origin(origin: str) -> bool:
    """Tell whether an Origin header names a page of this machine; `null` does not."""
    scheme, found, authority = origin.partition("://")
    return bool(found) and scheme in {"http", "https"} and is_local_authority(authority)
