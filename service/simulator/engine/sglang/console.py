"""What the engine writes: log lines, uvicorn's lines, progress bars that redraw themselves with a carriage return."""

from __future__ import annotations

import os
import time
from typing import Optional

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
ERROR_STREAM = 2
BAR_INTERVAL_S = 0.1
"""tqdm draws no more often than this."""


class Console:
    """Writes lines with a rank's prefix; each line is one write, so ranks do not mix within a line."""

    def __init__(self, prefix: str = "", level: str = "info") -> None:
        self.prefix = prefix
        self.level = LEVELS.get(level.lower(), 20)

    def info(self, message: str) -> None:
        """Write a line at level info."""
        self._log("info", message)

    def warning(self, message: str) -> None:
        """Write a line at level warning; the format shows no level."""
        self._log("warning", message)

    def error(self, message: str) -> None:
        """Write a line at level error."""
        self._log("error", message)

    def uvicorn(self, level: str, message: str) -> None:
        """Write one of uvicorn's lines, which name their level: `INFO:     Started …`."""
        if LEVELS[level] >= self.level:
            label = f"{level.upper()}:"
            write(f"[{_now()}] {label:<9} {message}\n")

    def _log(self, level: str, message: str) -> None:
        if LEVELS[level] >= self.level:
            prefix = " " + self.prefix if self.prefix else ""
            write(f"[{_now()}{prefix}] {message}\n")


class Bar:
    """A progress bar in tqdm's manner. It is drawn whatever the log level."""

    def __init__(self, label: str, total: int, *, has_blocks: bool) -> None:
        self.label = label
        self.total = total
        self._has_blocks = has_blocks
        self._begun_at = time.monotonic()
        self._drawn_at = 0.0
        self._draw(0)

    def advance(self, done: int, label: Optional[str] = None) -> None:
        """Show that `done` of the total are done; tqdm draws a new label at once; the last ends the line."""
        is_relabelled = label is not None and label != self.label
        self.label = label or self.label
        is_due = time.monotonic() - self._drawn_at >= BAR_INTERVAL_S
        if done >= self.total or is_relabelled or is_due:
            self._draw(done)
        if done >= self.total:
            write("\n")

    def _draw(self, done: int) -> None:
        self._drawn_at = time.monotonic()
        elapsed = self._drawn_at - self._begun_at
        percent = 100 * done // self.total
        rate = done / elapsed if elapsed > 0 else 0.0
        if done == 0:
            pace = "00:00<?, ?it/s"
        else:
            shown = f"{rate:.2f}it/s" if rate >= 1 else f"{1 / rate:.2f}s/it"
            pace = f"{_minutes(elapsed)}<{_minutes((self.total - done) / rate)}, {shown:>5}"
        if self._has_blocks:
            blocks = "█" * (done * 10 // self.total)
            body = f"{percent:>3}%|{blocks:<10}| {done}/{self.total}"
        else:
            body = f"{percent:>3}% Completed | {done}/{self.total}"
        write(f"\r{self.label}: {body} [{pace}]")


def write(text: str) -> None:
    """Write text to the error stream in one piece, and go on when nobody reads it."""
    data = text.encode("utf-8", "surrogateescape")
    try:
        while data:
            data = data[os.write(ERROR_STREAM, data) :]
    except OSError:
        return


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:02d}:{rest:02d}"
