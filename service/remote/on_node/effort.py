"""How much a launch has done: counters over its processes that never fall, also when one of them ends."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, Optional

from . import proc
from .members import Identity
from .proc import Stat

_PAGES_PER_MIB = 2**20 // os.sysconf("SC_PAGE_SIZE")


class Effort:
    """CPU ticks and bytes read, summed over every process that was ever a member, by its last look."""

    def __init__(self) -> None:
        self._cpu_ticks: Dict[Identity, int] = {}
        self._read_bytes: Dict[Identity, int] = {}

    def look(self, members: Iterable[Stat], log_bytes: int, gpu_memory_mib: Optional[int]) -> Dict[str, Any]:
        """Return the counters, and the memory of the processes that live now."""
        rss_pages = 0
        for stat in members:
            identity = (stat.pid, stat.start_ticks)
            self._cpu_ticks[identity] = stat.cpu_ticks
            rss_pages += stat.rss_pages
            read = proc.read_bytes(stat.pid)
            if read is not None:
                self._read_bytes[identity] = read
        return {
            "cpu_ticks": sum(self._cpu_ticks.values()),
            "read_bytes": sum(self._read_bytes.values()) if self._read_bytes else None,
            "rss_mib": rss_pages // _PAGES_PER_MIB,
            "gpu_memory_mib": gpu_memory_mib,
            "log_bytes": log_bytes,
        }
