"""Where the hub's client keeps a model on this node: snapshots of links into a folder of blobs."""

from __future__ import annotations

import os
import re
from typing import Dict, Optional

from .places import read_file

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def snapshot_of(hub_id: str, revision: Optional[str], environment: Dict[str, str]) -> Optional[str]:
    """Return the directory of a model that was downloaded before, None when it was not, or the id is none."""
    parts = hub_id.split("/")
    wanted = revision or "main"
    if not 1 <= len(parts) <= 2 or not all(map(_PART.fullmatch, parts)) or not _REVISION.fullmatch(wanted):  # noqa: PLR2004
        return None
    home = os.path.join(cache_directory(environment), "models--" + "--".join(parts))
    commit = (read_file(os.path.join(home, "refs", wanted)) or b"").decode("ascii", "replace").strip() or wanted
    snapshot = os.path.join(home, "snapshots", commit)
    return snapshot if _REVISION.fullmatch(commit) and os.path.isdir(snapshot) else None


def cache_directory(environment: Dict[str, str]) -> str:
    """Return the folder of the cache: by the launch's own variables first, then by this login's."""
    merged = {**os.environ, **environment}
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if merged.get(name):
            return os.path.expanduser(merged[name])
    cache = merged.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    home = merged.get("HF_HOME") or os.path.join(cache, "huggingface")
    return os.path.join(os.path.expanduser(home), "hub")


def incomplete_downloads(directory: str) -> int:
    """Return how many downloads into this model were begun and not finished."""
    places = [directory, os.path.join(directory, ".cache", "huggingface", "download")]
    if os.path.basename(os.path.dirname(directory)) == "snapshots":
        places.append(os.path.join(os.path.dirname(os.path.dirname(directory)), "blobs"))
    return sum(1 for place in places for name in _names(place) if name.endswith(".incomplete"))


def _names(directory: str) -> "list[str]":
    try:
        return os.listdir(directory)
    except OSError:
        return []
