"""Which SGLang a Python has, from its list of packages: importing it would take seconds and may touch a GPU."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Dict

from .answering import Refused

PATIENCE_S = 40
_ASK = (
    "import importlib.metadata as m\n"
    "try: print('sglang', m.version('sglang'))\n"
    "except m.PackageNotFoundError: print('sglang')"
)


def engine_version(request: Dict[str, Any]) -> Dict[str, Any]:
    """Say the version of SGLang that a Python would import, None when it has none."""
    python = request["python"]
    if not os.path.exists(python):
        raise Refused("engine_missing", "there is no %s on this node" % python)
    if not os.path.isfile(python) or not os.access(python, os.X_OK):
        raise Refused("engine_not_executable", "%s cannot be executed" % python)
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Refused("engine_not_executable", "%s did not answer within %d s" % (python, PATIENCE_S)) from error
    except OSError as error:
        raise Refused("engine_not_executable", "%s: %s" % (python, error.strerror)) from error
    words = done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2].split()
    if done.returncode != 0 or not words or words[0] != "sglang":
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise Refused("engine_not_executable", "%s is no Python 3.8 or newer: %s" % (python, said))
    return {"version": words[1] if len(words) > 1 else None}
