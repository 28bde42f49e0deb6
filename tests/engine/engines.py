"""Where the installed engines are, and the command line with which one serves the tiny model on a CPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.engine.install import recipe

VERSIONS = recipe.VERSIONS
DEFAULT_VERSION = VERSIONS[0]

CPU_ARGUMENTS: Mapping[str, str | int | bool] = MappingProxyType(
    {
        "device": "cpu",
        "attention-backend": "torch_native",
        "disable-overlap-schedule": True,
        "max-total-tokens": 20000,
    }
)
"""What an engine needs to serve without a GPU; without `max-total-tokens` its KV pool takes most of the memory."""
CPU_ENVIRONMENT: Mapping[str, str] = MappingProxyType({"SGLANG_USE_CPU_ENGINE": "1"})
TWO_RANKS: Mapping[str, str | int | bool] = MappingProxyType({"tp-size": 2})
"""To be added for two ranks, with `TWO_RANKS_ENVIRONMENT`."""
TWO_RANKS_ENVIRONMENT: Mapping[str, str] = MappingProxyType({"SGLANG_CPU_OMP_THREADS_BIND": "0|1"})


class EngineMissingError(RuntimeError):
    """The version is not installed, or not by the recipe as it is now."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An installed engine: its Python has SGLang, its model is a tiny random Llama."""

    version: str
    python: Path
    model: Path

    @property
    def folder(self) -> Path:
        """The virtual environment; the model lies in it too."""
        return self.python.parent.parent

    def command(self, *, port: int, model: Path | None = None) -> list[str]:
        """Return the argv that serves on 127.0.0.1 with `CPU_ENVIRONMENT`; arguments put behind it win."""
        flags: dict[str, str | int | bool] = {
            "model-path": str(model or self.model),
            "host": "127.0.0.1",
            "port": port,
            "enable-metrics": True,
            **CPU_ARGUMENTS,
        }
        argv = [str(self.python), "-m", "sglang.launch_server"]
        for name, value in flags.items():
            argv += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return argv


def installed(version: str = DEFAULT_VERSION) -> Engine:
    """Return an installed engine; raise `EngineMissingError`, which names the make target, when it is not complete."""
    if version not in VERSIONS:
        raise EngineMissingError(f"there is no recipe for SGLang {version}, only for {', '.join(VERSIONS)}")
    if not recipe.is_complete(version):
        target = "make test-engine" if version == DEFAULT_VERSION else "make test-engines"
        raise EngineMissingError(f"SGLang {version} is not installed in {recipe.folder_of(version)}: run `{target}`")
    folder = recipe.folder_of(version)
    return Engine(version=version, python=folder / "bin" / "python", model=folder / "tiny-model")
