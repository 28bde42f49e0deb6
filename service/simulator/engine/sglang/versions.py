"""Which engine version this environment plays, and what differs between versions."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple, Tuple


class Version(NamedTuple):
    """A version of SGLang; comparisons are by its leading numbers."""

    text: str
    numbers: Tuple[int, ...]

    @property
    def has_new_texts(self) -> bool:
        """From 0.5.16: `CUDA graph begin. backend=…`, draft weights right after the target's, the other accept rate."""
        return self.numbers >= (0, 5, 16)

    @property
    def is_newest(self) -> bool:
        """From 0.5.23: `Init parallel begin.`, a dict of arguments, /ready, a clean exit with code 0."""
        return self.numbers >= (0, 5, 23)


def this_version() -> Version:
    """Return the version of the environment whose Python runs, from the metadata beside this package."""
    packages = site_packages()
    for name in os.listdir(packages):
        if name.startswith("sglang-") and name.endswith(".dist-info"):
            return version_of(name[len("sglang-") : -len(".dist-info")])
    raise RuntimeError(f"no sglang metadata in {packages}")


def version_of(text: str) -> Version:
    """Return a version from its text: `0.5.10.post1` has the numbers (0, 5, 10)."""
    return Version(text, tuple(int(part) for part in text.split(".") if part.isdigit()))


def home_dir() -> str:
    """Return the home of the node the environment lies on."""
    return os.path.dirname(sys.prefix)


def state_dir() -> str:
    """Return where the stand-ins of this node keep their state."""
    return os.path.join(home_dir(), ".simulator")


def site_packages() -> str:
    """Return the folder that tracebacks name, as the real engine's do."""
    major, minor = sys.version_info[:2]
    return os.path.join(sys.prefix, "lib", f"python{major}.{minor}", "site-packages")
