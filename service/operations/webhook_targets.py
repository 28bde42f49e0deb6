"""Where webhooks may go: not to this machine, not to what only this machine reaches, unless an operator allows it."""

import ipaddress
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import SplitResult, urlsplit

from service.errors import TargetRefused
from service.remote.http import look_up

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address
URL_LENGTH = 2_000
DEFAULT_PORTS = {"http": 80, "https": 443}
_EMBEDDING = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))
"""IPv6 networks whose last 32 bits are an IPv4 address."""
_METADATA = frozenset(
    ipaddress.ip_address(text) for text in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254")
)
"""Where clouds tell a machine its credentials, besides 169.254.169.254, which is link-local."""


async def require_callable(url: str, allowed: Sequence[Network]) -> None:
    """Raise TargetRefused for an address that is no http or https one, or that stands for a machine not to be called.

    What its name stands for is looked at again at every connect.
    """
    parts = _split(url)
    if parts.hostname is None:
        raise TargetRefused("the address names no host")
    try:
        addresses = await look_up(parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme])
    except (OSError, UnicodeError) as error:
        raise TargetRefused(f"the name {parts.hostname} stands for no address now") from error
    for address in addresses:
        why = refusal(address, allowed)
        if why is not None:
            raise TargetRefused(f"{parts.hostname} stands for {why}")


def refusal(text: str, allowed: Sequence[Network]) -> str | None:
    """Return why an address is not called, None if it may be. Private networks may: receivers are often there."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return f"{text}, which is no address"
    if any(address in network for network in allowed):
        return None
    inner = _embedded(address)
    if inner is not None:
        return refusal(str(inner), allowed)
    for is_so, kind in (
        (address.is_loopback, "a loopback address"),
        (address.is_link_local, "a link-local address, where clouds keep their metadata"),
        (address in _METADATA, "the metadata service of a cloud"),
        (address.is_unspecified or (address.version == 4 and int(address) < 2**24), "no address of a machine"),  # noqa: PLR2004
        (address.is_multicast, "a multicast address"),
        (address.is_reserved, "a reserved address"),
    ):
        if is_so:
            return f"{address}, {kind}"
    return None


def refuse_by(allowed: Sequence[Network]) -> Callable[[str], None]:
    """Return what raises OSError for an address that is not called."""

    def refuse(text: str) -> None:
        why = refusal(text, allowed)
        if why is not None:
            raise OSError(f"the name stands for {why}")

    return refuse


def _embedded(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address only wraps."""
    if not isinstance(address, IPv6Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if any(address in network for network in _EMBEDDING) and int(address) > 1:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _split(url: str) -> SplitResult:
    if len(url) > URL_LENGTH:
        raise TargetRefused(f"the address has more than {URL_LENGTH} characters")
    if not url.isascii() or any(character <= " " or character in "\\\x7f" for character in url):
        raise TargetRefused("the address holds characters that must be written as %XX, or a host that is not punycode")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise TargetRefused(f"the address cannot be read: {error}") from error
    if parts.scheme not in DEFAULT_PORTS or port == 0:
        raise TargetRefused("the address must begin with https:// or http:// and name no port 0")
    if parts.username is not None or parts.password is not None:
        raise TargetRefused("the address holds a user or password: they would stand in lists and logs")
    if parts.fragment:
        raise TargetRefused("the address holds a fragment, which is never sent")
    return parts
