"""Stands in for a package that is published for GPUs only; the install copies it under that package's name.

Every name and submodule of it can be imported, and a call says that the package is absent. Serving on a CPU calls
none of SGLang's compiled kernels (`sgl_kernel`), and the tiny model reads no image (`torchvision`, whose published
builds do not load beside the CPU build of torch).
"""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence

__version__ = "0.0.0"
__path__: list[str] = []


class Absent:
    """A name of the absent package."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_: object, **__: object) -> None:
        raise NotImplementedError(f"{self._name} is not on this machine: only a stand-in is")

    def __getattr__(self, name: str) -> "Absent":
        return _absent(self._name, name)


def __getattr__(name: str) -> Absent:
    return _absent(__name__, name)


def _absent(owner: str, name: str) -> Absent:
    if name.startswith("__"):  # a probe of the interpreter, not a name of the package
        raise AttributeError(name)
    return Absent(f"{owner}.{name}")


class _Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers the import of any submodule with an empty module that has every name."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        is_ours = fullname.startswith(f"{__name__}.")
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if is_ours else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        any_name: Callable[[str], Absent] = lambda name: _absent(spec.name, name)  # noqa: E731 - a module's own __getattr__
        module.__getattr__ = any_name  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the module empty."""


sys.meta_path.append(_Submodules())
