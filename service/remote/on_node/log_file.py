"""A launch's log, read from any offset with its secrets masked, the same whatever the pieces it is read in."""

from __future__ import annotations

import base64
import os
from collections import deque
from typing import Any, Deque, Dict, Iterator, Optional, Tuple

from .main_process import MainProcess
from .masking import Masker, find_masker
from .places import existing_launch

STEP_BYTES = 1 << 20
LINE_LIMIT_BYTES = 1 << 18


class LogFile:
    """One log. `read` never returns half a secret: what may be one at the end waits until more is written."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "log")
        self._directory = directory
        self._masker: Optional[Masker] = None

    @property
    def masker(self) -> Optional[Masker]:
        """Return what hides the secrets, None while they are not known: then nothing of the log may be read."""
        if self._masker is None:
            self._masker = find_masker(self._directory)
        return self._masker

    def size(self) -> int:
        """Return how many bytes the log has, 0 when there is none."""
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0

    def is_cut(self, offset: int) -> bool:
        """Tell whether the log is shorter than an offset that it had; one that is away is not."""
        try:
            return os.stat(self.path).st_size < offset
        except OSError:
            return False

    def read(self, offset: int, limit_bytes: int, *, is_final: bool) -> bytes:
        """Return masked bytes from `offset` on. With `is_final` nothing is held back: a part of a secret is masked."""
        masker = self.masker
        if masker is None:
            return b""
        around = max(masker.longest - 1, 0)
        start = max(offset - around, 0)
        try:
            with open(self.path, "rb") as log:
                log.seek(start)
                window = log.read(offset - start + limit_bytes + around)
        except OSError:
            return b""
        masked = masker.mask(window)
        if len(window) < offset - start + limit_bytes + around:  # the end of the log is in sight
            held = masker.held_back(window)
            masked = masked[: len(masked) - held] + (b"*" * held if is_final else b"")
        return masked[offset - start : offset - start + limit_bytes]


def read_log(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer with a slice: from an offset, or the last lines, or the lines that contain a text."""
    directory = existing_launch(request["launch"])
    log = LogFile(directory)
    is_final = MainProcess(directory).settled()["state"] not in ("pending", "running")
    offset = max(int(request["offset"]), 0)
    limit = max(int(request["limit_bytes"]), 1)
    tail = request["tail_lines"]
    if request["contains"] is not None:
        needle = request["contains"].encode("utf-8", "surrogatepass")
        offset, data, next_offset = _matching(log, offset, limit, needle, tail, is_final=is_final)
    else:
        if tail is not None:
            offset = max(_start_of_tail(log, tail), log.size() - limit, 0)
        data = log.read(offset, limit, is_final=is_final)
        next_offset = offset + len(data)
    return {
        "offset": offset,
        "b64": base64.b64encode(data).decode("ascii"),
        "next_offset": next_offset,
        "size": log.size(),
    }


def _start_of_tail(log: LogFile, lines: int) -> int:
    """Return where the last so many lines begin; a last line without an end is a line."""
    size = log.size()
    if lines <= 0 or size == 0:
        return size
    position = size
    with open(log.path, "rb") as file:
        file.seek(max(size - 1, 0))
        wanted = lines + (1 if file.read(1) == b"\n" else 0)
        while position > 0:
            start = max(position - STEP_BYTES, 0)
            file.seek(start)
            block = file.read(position - start)
            found = block.count(b"\n")
            if found >= wanted:
                at = len(block)
                for _ in range(wanted):
                    at = block.rfind(b"\n", 0, at)
                return start + at + 1
            wanted -= found
            position = start
    return 0


def _matching(
    log: LogFile, offset: int, limit: int, needle: bytes, tail: Optional[int], *, is_final: bool
) -> Tuple[int, bytes, int]:
    """Return the first matching lines that fit the limit, or the last ones with `tail`, and where the search ended."""
    lines: Deque[bytes] = deque(maxlen=tail)
    held = 0
    position = offset
    for line, end in _lines(log, offset, is_final=is_final):
        if needle in line:
            if tail is None and held + len(line) > limit and lines:
                break
            lines.append(line)
            held += len(line)
        position = end
    return offset, b"".join(lines)[:limit] if tail is None else b"".join(lines)[-limit:], position


def _lines(log: LogFile, offset: int, *, is_final: bool) -> Iterator[Tuple[bytes, int]]:
    """Yield masked lines with the offset of their end; one longer than LINE_LIMIT_BYTES comes in parts.

    A last line without an end is a line only once nothing more can come.
    """
    rest = b""
    while True:
        block = log.read(offset, STEP_BYTES, is_final=is_final)
        offset += len(block)
        *lines, rest = (rest + block).split(b"\n")
        end = offset - len(rest) - sum(len(line) + 1 for line in lines)
        for line in lines:
            end += len(line) + 1
            yield line + b"\n", end
        if not block:
            if rest and is_final:
                yield rest, offset
            return
        if len(rest) > LINE_LIMIT_BYTES:
            yield rest, offset
            rest = b""
