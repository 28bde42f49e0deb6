"""How the parent passes a phase of its own: time goes by and the script's events happen."""

from __future__ import annotations

import os
import time

from .console import Console
from .script import Script

FROZEN_PAUSE_S = 3600.0


def pass_phase(phase: str, script: Script, console: Console) -> None:
    """Spend the seconds of a phase; `crash` has no meaning here, the parent only freezes, exits or says something."""
    for event in script.at(phase, 0):
        if event.do == "say":
            for line in event.lines:
                console.info(line)
        elif event.do == "exit":
            os._exit(event.code)
        while event.do == "freeze":
            time.sleep(FROZEN_PAUSE_S)
    time.sleep(script.phases[phase] * script.pace(phase, 0))
