"""Several looks side by side, each with its own end: one that hangs on a dead file system spoils no other."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, NamedTuple


class Seen(NamedTuple):
    """What came of some looks, by their names: an answer or a problem for each."""

    answers: Dict[str, Any]
    problems: Dict[str, str]


def side_by_side(looks: Dict[str, Callable[[], Any]], patience_s: float) -> Seen:
    """Take every look in a thread of its own and wait for all together no longer than `patience_s`.

    A thread that hangs is left behind and ends with this process.
    """
    answers: Dict[str, Any] = {}
    failures: Dict[str, str] = {}

    def take(name: str, look: Callable[[], Any]) -> None:
        try:
            answers[name] = look()
        except Exception as error:
            failures[name] = _said(error)

    threads = {name: threading.Thread(target=take, args=(name, look), daemon=True) for name, look in looks.items()}
    ends_at = time.monotonic() + patience_s
    for thread in threads.values():
        thread.start()
    for thread in threads.values():
        thread.join(max(ends_at - time.monotonic(), 0.0))
    done, failed = dict(answers), dict(failures)
    late = {name: "no answer within %g s" % patience_s for name in looks if name not in done and name not in failed}
    return Seen(done, dict(failed, **late))


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return "%s: %s" % (error.filename, error.strerror) if error.filename else error.strerror
    return "%s: %s" % (type(error).__name__, error)
