"""What is said of GPUs in their place: their compute capability, and what a stand-in of nvidia-smi answers."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, Dict, List, Optional

from . import gpu
from .answering import Refused

PATIENCE_S = 5.0
CAPABILITIES = (
    ("GB300|B300", "10.3"),
    ("GB200|B200", "10.0"),
    ("GB10", "12.1"),
    ("RTX PRO [0-9]+ Blackwell|RTX 50[0-9]0", "12.0"),
    ("GH200|H200|H100|H800|H20", "9.0"),
    ("L40S|L40|L20|L4|RTX 40[0-9]0|RTX [0-9]+ Ada", "8.9"),
    ("A40|A16|A10G|A10|A2|RTX A[0-9]+|RTX 30[0-9]0", "8.6"),
    ("A100|A800|A30", "8.0"),
    ("T4", "7.5"),
    ("V100", "7.0"),
)
"""Names of GPUs and their compute capability; asking nvidia-smi instead would cost a second or more."""


def capability_of(one: Dict[str, Any]) -> Optional[str]:
    """Return a GPU's compute capability: as given, by its name, or as nvidia-smi says it; it creates no context."""
    if one["compute_capability"]:
        return str(one["compute_capability"])
    for names, capability in CAPABILITIES:
        if re.search(r"(?<![A-Za-z0-9])(?:%s)(?![0-9])" % names, one["name"]):
            return capability
    with suppress(Refused):
        outcome = gpu.ask("gpu", ("compute_cap", "name"), PATIENCE_S)
        for line in outcome["text"].splitlines() if outcome["exit"] == 0 else ():
            capability, _, name = line.strip().partition(", ")
            if name == one["name"]:
                return str(capability)
    return None


def write_nvidia_smi(path: str, gpus: List[Dict[str, Any]]) -> None:
    """Write a program that answers in nvidia-smi's place what the engine asks it for, and fails at all else."""
    facts = {
        "memory.total": [str(one["memory_mib"] or "[N/A]") for one in gpus],
        "compute_cap": [one["compute_capability"] or "[N/A]" for one in gpus],
        "name": [one["name"] for one in gpus],
    }
    version = _driver_version()
    if version:
        facts["driver_version"] = [version] * len(gpus)
    lines = ["#!/bin/sh", 'case "$1" in']
    for name, values in facts.items() if gpus else ():
        text = "\n".join(values).replace("'", "")
        lines.append("--query-gpu=%s) printf '%%s\\n' '%s' ;;" % (name, text))
    lines += ["*) echo 'hidden while arguments are judged' >&2; exit 9 ;;", "esac"]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    os.chmod(path, 0o700)


def _driver_version() -> Optional[str]:
    try:
        with open("/sys/module/nvidia/version", encoding="ascii") as file:
            return file.read(64).strip() or None
    except (OSError, ValueError):
        return None
