"""What torch says of the GPUs that a process sees, on a simulated node."""

from __future__ import annotations

import importlib
from typing import Any


def is_available() -> bool:
    """Tell whether any GPU is visible."""
    return device_count() > 0


def device_count() -> int:
    """Return how many are."""
    gpus: Any = importlib.import_module("sglang.gpus")
    return len(gpus.visible_gpus())
