"""Processes of engines whose server is gone: they hold GPU memory that nobody will give back (facts: SGLang 6)."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Optional

from . import proc
from .members import GENERATIONS_LIMIT
from .proc import Stat

TITLE = "sglang::"
"""How every child of an engine calls itself: `sglang::scheduler_TP0`, `sglang::detokenizer`, and so on."""
ORPHANS_LIMIT = 64
_PYTHON = re.compile(r"(python|pypy)[0-9.]*|sglang")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_INIT = 1


def find_orphans(stats: Dict[int, Stat], launch_of: Callable[[int], Optional[str]]) -> List[Dict[str, Any]]:
    """Return the titled processes that no living server stands above."""
    titled = {pid: stat for pid, stat in stats.items() if is_titled(pid)}
    orphans = [stat for pid, stat in sorted(titled.items()) if is_orphan(stat, stats, titled)]
    return [
        {
            "pid": stat.pid,
            "user": proc.user_of(stat.pid),
            "command": proc.command(stat.pid) or "",
            "launch": launch_of(stat.pid),
            "rss_mib": stat.rss_pages * _PAGE // 2**20,
        }
        for stat in orphans[:ORPHANS_LIMIT]
    ]


def is_titled(pid: int) -> bool:
    """Tell whether a process calls itself a part of an engine."""
    line = proc.words(pid)
    return bool(line) and line[0].startswith(TITLE) if line else False


def is_orphan(stat: Stat, stats: Dict[int, Stat], titled: Dict[int, Stat]) -> bool:
    """Tell whether the server that started a titled process is gone.

    Then its parent, or that of the titled processes above it, is whoever takes in orphans: the first process, or one
    of another session. A Python above it is taken for a living server, whatever it runs.
    """
    seen = stat
    for _ in range(GENERATIONS_LIMIT):
        parent = stats.get(seen.parent)
        if parent is None:
            return True
        if parent.pid not in titled:
            return not _is_python(parent.pid) and (parent.pid == _INIT or parent.session != seen.session)
        seen = parent
    return False


def _is_python(pid: int) -> bool:
    line = proc.words(pid) or [""]
    return bool(_PYTHON.fullmatch(os.path.basename(line[0])))
