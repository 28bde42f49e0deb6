"""Whether the limits that an engine will be started with let it serve."""

from collections.abc import Iterator, Mapping

from service.nodes.inventory import Inventory
from service.preflights.conditions import LaunchConditions, Limit, LimitName, LimitsLook, Part
from service.preflights.node_wish import NodeWish
from service.sglang.checks import Check, CheckCode, Finding, concluded, fail, skipped, warn

ENGINE_OPEN_FILES = 65535
ENGINE_STACK = 1024 * 65535
"""What the engine raises its own soft limits to, unless the hard ones are lower: then it warns in its log and keeps
what it has (SGLang 0.5.23, srt/utils/common.py `set_ulimit`)."""
OPEN_FILES_NEEDED = 128
"""A rank with the tiniest model opens 81 files; with a limit of 64 it dies before it is ready (measured, 0.5.23)."""
OPEN_FILES_SENSIBLE = 4096
"""Each request in flight takes one in the HTTP process, besides those of weight files and of ranks to each other."""
THREADS_NEEDED = 60
"""An engine of one rank with the tiniest model runs 60 threads on two processor cores (measured, 0.5.23)."""
THREADS_SENSIBLE = 500
"""For each rank: its libraries start threads by the number of processor cores."""
STACK_SENSIBLE = 8 * 2**20
UNIT_LIMITS: Mapping[LimitName, Limit] = {
    LimitName.OPEN_FILES: Limit(1048576, 1048576),
    LimitName.LOCKED_MEMORY: Limit(None, None),
}
"""What a systemd unit of a launch asks for; its other limits are the manager's defaults, which are not known."""
_BYTES = frozenset({LimitName.LOCKED_MEMORY, LimitName.CORE, LimitName.STACK})
_SETSID = "setsid"
_SYSTEMD_USER = "systemd_user"
_WHERE = "in /etc/security/limits.conf for logins over SSH"


def check_limits(inventory: Inventory, conditions: LaunchConditions, wish: NodeWish) -> Check:
    """Judge the limits at the start: those of the login with setsid, those of its unit with systemd."""
    look = conditions.limits
    if look is None:
        return skipped(CheckCode.NODE_LIMITS, f"the limits are not known: {conditions.why_unknown(Part.LIMITS)}")
    limits = limits_at_start(look, inventory.launcher)
    told = ", ".join(f"{_NAMES[name]} {_told(name, limit)}" for name, limit in limits.items())
    return concluded(
        CheckCode.NODE_LIMITS,
        _findings(look, limits, wish),
        otherwise=f"started by {inventory.launcher}: {told}",
        facts={
            "launcher": inventory.launcher,
            "user_threads": look.user_threads,
            "rdma_devices": list(look.rdma_devices),
            **{name.value: [limit.soft, limit.hard] for name, limit in limits.items()},
        },
    )


def limits_at_start(look: LimitsLook, launcher: str) -> Mapping[LimitName, Limit]:
    """Return the limits that an engine will have, as far as they are known.

    A unit of the user's own systemd gets no more than that systemd itself may have.
    """
    if launcher == _SETSID:
        return look.login
    if launcher == _SYSTEMD_USER:
        manager = look.user_manager
        if manager is None:
            return {}
        return {name: _capped(limit, manager[name].hard) for name, limit in UNIT_LIMITS.items()}
    return UNIT_LIMITS


def _findings(look: LimitsLook, limits: Mapping[LimitName, Limit], wish: NodeWish) -> Iterator[Finding]:
    files = limits.get(LimitName.OPEN_FILES)
    if files:
        yield from _open_files(files)
    processes = limits.get(LimitName.PROCESSES)
    if processes and not look.is_root:
        yield from _threads(processes, look.user_threads, max(wish.gpu_count, 1))
    locked = limits.get(LimitName.LOCKED_MEMORY)
    if locked and locked.soft is not None and look.rdma_devices and wish.gpu_count > 1:
        yield warn(
            f"{_told(LimitName.LOCKED_MEMORY, locked)} may be locked in memory, and the node has the RDMA devices "
            f"{', '.join(look.rdma_devices)}: registering memory with them needs it unlimited",
            f"set memlock to unlimited {_WHERE}",
        )
    stack = limits.get(LimitName.STACK)
    if stack and stack.soft is not None and stack.soft < STACK_SENSIBLE and _raised(stack, ENGINE_STACK) == stack.soft:
        found = f"the stack may grow to {_told(LimitName.STACK, stack)}, less than the usual 8 MiB"
        yield warn(found, f"raise the hard limit of the stack {_WHERE}")


def _open_files(limit: Limit) -> Iterator[Finding]:
    usable = _raised(limit, ENGINE_OPEN_FILES)
    if usable is None or usable >= OPEN_FILES_SENSIBLE:
        return
    found = f"each process may open {usable} files (soft {_number(limit.soft)}, hard {_number(limit.hard)})"
    remedy = f"raise the hard limit of nofile to {ENGINE_OPEN_FILES} or more {_WHERE}"
    if usable < OPEN_FILES_NEEDED:
        yield fail(f"{found}, and the engine needs {OPEN_FILES_NEEDED} to start", remedy)
    else:
        yield warn(f"{found}; the engine asks for {ENGINE_OPEN_FILES}, and every request takes one", remedy)


def _threads(limit: Limit, used: int, ranks: int) -> Iterator[Finding]:
    if limit.soft is None:
        return
    left = limit.soft - used
    found = f"this user may start {left} more threads: {used} of {limit.soft} are running"
    remedy = f"raise nproc {_WHERE}, or end what this user does not need"
    if left < THREADS_NEEDED:
        yield fail(f"{found}, and the smallest engine needs {THREADS_NEEDED}", remedy)
    elif left < THREADS_SENSIBLE * ranks:
        yield warn(f"{found}, and {ranks} ranks may want {THREADS_SENSIBLE * ranks}", remedy)


def _raised(limit: Limit, wanted: int) -> int | None:
    """Return what a soft limit becomes when the engine raises it; None is unlimited."""
    if limit.soft is None or limit.soft >= wanted:
        return limit.soft
    return wanted if limit.hard is None or limit.hard >= wanted else limit.soft


def _capped(limit: Limit, cap: int | None) -> Limit:
    if cap is None:
        return limit
    return Limit(*(cap if value is None else min(value, cap) for value in (limit.soft, limit.hard)))


_NAMES: Mapping[LimitName, str] = {
    LimitName.OPEN_FILES: "open files",
    LimitName.LOCKED_MEMORY: "locked memory",
    LimitName.PROCESSES: "threads",
    LimitName.CORE: "core files",
    LimitName.STACK: "stack",
}


def _told(name: LimitName, limit: Limit) -> str:
    if name not in _BYTES:
        return f"{_number(limit.soft)} (hard {_number(limit.hard)})"
    return "unlimited" if limit.soft is None else f"{limit.soft // 1024} KiB"


def _number(value: int | None) -> str:
    return "unlimited" if value is None else str(value)
