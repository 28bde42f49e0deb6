"""Stands in for torch on a simulated node: what an engine asks it of the driver before it starts anything."""

from __future__ import annotations

import os
import re
from types import SimpleNamespace
from typing import Optional

from . import cuda

__all__ = ["cuda", "version"]


def _cuda_version() -> Optional[str]:
    """Return the CUDA of the record beside this package: `torch-2.9.1+cu129` is built for 12.9."""
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name in os.listdir(packages):
        found = re.fullmatch(r"torch-[\d.]+\+cu(\d+)(\d)\.dist-info", name)
        if found:
            return "%s.%s" % found.groups()
    return None


version = SimpleNamespace(cuda=_cuda_version())
