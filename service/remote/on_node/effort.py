"""How much a launch has done: counters over its processes that never fall, also when one of them ends."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, Optional

from . import proc
from .proc import Stat

_PAGES_PER_MIB = 2**20 // os.sysconf("SC_PAGE_SIZE")


class Rising:
    """A sum that falls when a process takes its share away with it; what is lost so is added on from then on."""

    def __init__(self) -> None:
        self._last = 0
        self._lost = 0

    def look(self, total: int) -> int:
        """Return the sum with everything that was ever in it."""
        self._lost += max(self._last - total, 0)
        self._last = total
        return total + self._lost


class Effort:
    """CPU ticks and bytes read of a launch, children that were waited for included."""

    def __init__(self) -> None:
        self._cpu_ticks = Rising()
        self._read_bytes = Rising()
        self._has_read = False

    def look(self, members: Iterable[Stat], log_bytes: int, gpu_memory_mib: Optional[int]) -> Dict[str, Any]:
        """Return the counters, and the memory of the processes that live now."""
        team = list(members)
        read = [count for count in (proc.read_bytes(stat.pid) for stat in team) if count is not None]
        self._has_read = self._has_read or bool(read)
        return {
            "cpu_ticks": self._cpu_ticks.look(sum(stat.cpu_ticks for stat in team)),
            "read_bytes": self._read_bytes.look(sum(read)) if self._has_read else None,
            "rss_mib": sum(stat.rss_pages for stat in team) // _PAGES_PER_MIB,
            "gpu_memory_mib": gpu_memory_mib,
            "log_bytes": log_bytes,
        }
