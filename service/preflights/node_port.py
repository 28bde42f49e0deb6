"""Whether an engine can listen where it is wished to: the kernel's word, and who is there if not."""

from collections.abc import Iterator

from service.preflights.conditions import BindTrial, LaunchConditions, Listener, Part, PortLook
from service.preflights.node_wish import NodeWish
from service.sglang.checks import Check, CheckCode, Finding, concluded, fail, skipped, warn

_WILDCARDS = {4: "0.0.0.0", 6: "::"}  # noqa: S104  # compared, not bound
_OTHER_PORT = "give the server another port"


def check_port(conditions: LaunchConditions, wish: NodeWish) -> Check:
    """Judge the address that the engine will bind, minutes after its start: only then would it find the port taken.

    What the launch that will be stopped first listens on counts as free.
    """
    look = conditions.port
    if look is None:
        return skipped(CheckCode.NODE_PORT, f"the port could not be looked at: {conditions.why_unknown(Part.PORT)}")
    own = [listener for listener in look.listeners if wish.own_launch_id and listener.launch_id == wish.own_launch_id]
    others = [listener for listener in look.listeners if listener not in own]
    there = [listener for listener in others if conflicts(listener.address, wish.host or _WILDCARDS[4], look)]
    elsewhere = [listener for listener in others if listener not in there]
    notes = [f"launch {wish.own_launch_id} listens there and is stopped first"] if own else []
    notes += [f"{_who(listener)} listens on {listener.address}, which is no conflict" for listener in elsewhere]
    if not look.trials:
        notes.append(f"{wish.host} is a name: it was not tried, only the listeners were looked at")
    return concluded(
        CheckCode.NODE_PORT,
        _findings(look, there, wish, has_own=bool(own)),
        otherwise="; ".join([f"port {wish.port} is free on {wish.host or _WILDCARDS[4]}", *notes]),
        facts={
            "host": wish.host,
            "port": wish.port,
            "listeners": [_plain(listener) for listener in look.listeners],
            "bind_errors": {trial.address: trial.error for trial in look.trials if trial.error},
        },
    )


def conflicts(address: str, host: str, look: PortLook) -> bool:
    """Tell whether a listener on `address` keeps an engine from binding `host`; a name may lead to any address.

    An engine binds IPv6 by itself. A listener on `::` mostly serves IPv4 as well: a trial that went well tells that
    this one does not.
    """
    try:
        mine, other = _family(host), _family(address)
    except ValueError:
        return True
    if mine == other:
        return host == address or _WILDCARDS[mine] in {host, address}
    is_free = any(trial.address == host and trial.error is None for trial in look.trials)
    return mine == 4 and address == _WILDCARDS[6] and not is_free  # noqa: PLR2004


def _findings(look: PortLook, there: list[Listener], wish: NodeWish, *, has_own: bool) -> Iterator[Finding]:
    for listener in there:
        yield fail(f"{_who(listener)} listens on {listener.address} port {wish.port}", _remedy(listener))
    for trial in look.trials:
        if trial.error and not (trial.error == "EADDRINUSE" and (there or has_own)):
            yield _refused(trial, wish.port)
    if look.ephemeral:
        low, high = look.ephemeral
        yield warn(
            f"port {wish.port} lies in the range {low} to {high} from which the node's kernel takes ports for outgoing "
            "connections: one may have it by the time the engine binds it, after loading",
            f"use a port below {low}, or reserve it in net.ipv4.ip_local_reserved_ports",
        )


def _refused(trial: BindTrial, port: int) -> Finding:
    where = f"{trial.address} port {port}"
    match trial.error:
        case "EADDRINUSE":
            return fail(f"{where} is in use by a socket that does not listen: bound, or connected from there")
        case "EADDRNOTAVAIL":
            return fail(f"the node has no address {trial.address}", "name one of its addresses as the profile's host")
        case "EACCES":
            return fail(f"this user may not bind {where}", "use a port from 1024 on")
    return fail(f"{where} cannot be bound: {trial.error}")


def _remedy(listener: Listener) -> str:
    if listener.launch_id:
        return f"stop the server of launch {listener.launch_id}, or {_OTHER_PORT}"
    if listener.pid:
        return f"end pid {listener.pid} if nobody needs it, or {_OTHER_PORT}"
    return _OTHER_PORT


def _who(listener: Listener) -> str:
    if listener.pid is None:
        return f"a process of user {listener.user}, which this login may not look into,"
    launch = f" of launch {listener.launch_id}" if listener.launch_id else ""
    return f"pid {listener.pid}{launch} of user {listener.user} (`{listener.command or ''}`)"


def _plain(listener: Listener) -> dict[str, object]:
    return {
        "address": listener.address,
        "pid": listener.pid,
        "user": listener.user,
        "command": listener.command,
        "launch_id": listener.launch_id,
    }


def _family(address: str) -> int:
    """Return 4 or 6; ValueError for a name."""
    if ":" in address:
        return 6
    if address.replace(".", "").isdecimal():
        return 4
    raise ValueError(address)
