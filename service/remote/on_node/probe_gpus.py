"""Answers in the driver's place, inside the engine's own process, where arguments are judged with the GPUs hidden."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, List, Optional, Tuple


class NotTouched(RuntimeError):
    """A GPU itself was wanted, not a fact of it."""


def stand_in(gpus: List[Dict[str, Any]]) -> Optional[str]:
    """Answer in the driver's place; None when there is nothing to stand in for."""
    torch = importlib.import_module("torch")
    if not gpus or torch.version.cuda is None:
        return None
    for name, answer in _answers(gpus).items():
        setattr(torch.cuda, name, answer)
    return "torch.cuda and nvidia-smi answered from facts of %d x %s" % (len(gpus), gpus[0]["name"])


def _answers(gpus: List[Dict[str, Any]]) -> Dict[str, Callable[..., Any]]:
    """Return the functions of torch.cuda that only ask for facts, and those that would begin to use a GPU."""

    def at(device: Any = None) -> Dict[str, Any]:
        index = device.rpartition(":")[2] if isinstance(device, str) else getattr(device, "index", device)
        return gpus[int(index)] if str(index).isdecimal() else gpus[0]

    def capability(device: Any = None) -> Tuple[int, int]:
        major, _, minor = str(at(device)["compute_capability"] or "").partition(".")
        if not (major.isdecimal() and minor.isdecimal()):
            raise NotTouched("the compute capability of %s is not known" % at(device)["name"])
        return int(major), int(minor)

    def memory(device: Any = None) -> Tuple[int, int]:
        size = _memory_bytes(at(device))
        return size, size

    def untouched(*_: Any, **__: Any) -> Any:
        raise NotTouched("a GPU was wanted, not a fact of it")

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: False,
        "device_count": lambda: len(gpus),
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: at(device)["name"],
        "get_device_capability": capability,
        "get_device_properties": lambda device=None: _Properties(at(device), capability),
        "mem_get_info": memory,
        "is_bf16_supported": lambda *_, **__: capability() >= (8, 0),
        "_lazy_init": untouched,
        "init": untouched,
    }


def _memory_bytes(gpu: Dict[str, Any]) -> int:
    """Return a GPU's memory; of a GPU that shares the machine's the driver counts none, and 0 is told of it."""
    if not gpu["memory_mib"]:
        raise NotTouched("the memory of %s is not known" % gpu["name"])
    return int(gpu["memory_mib"]) << 20


class _Properties:
    """Properties of a GPU as far as they are facts; anything else is NotTouched."""

    def __init__(self, gpu: Dict[str, Any], capability: Callable[..., Tuple[int, int]]) -> None:
        self.name = gpu["name"]
        self._gpu = gpu
        self._capability = capability

    @property
    def total_memory(self) -> int:
        return _memory_bytes(self._gpu)

    @property
    def major(self) -> int:
        return self._capability()[0]

    @property
    def minor(self) -> int:
        return self._capability()[1]

    def __getattr__(self, name: str) -> Any:
        raise NotTouched("%s of a GPU is not known without it" % name)
