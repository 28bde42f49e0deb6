"""How SGLang is started: argv, environment and config file, by engine version."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from service.sglang.arguments import ArgumentValue, argument_tokens

CONFIG_FILE_SINCE = (0, 5, 6)
"""The first version whose parser has `--config FILE` (facts: SGLang §1)."""
QUIET_LEVELS = frozenset({"warning", "error", "critical"})


class Recipe(Protocol):
    """What a command is made from; a profile is one."""

    # ruff: noqa: D102  the names say it

    @property
    def python(self) -> str: ...
    @property
    def model_path(self) -> str: ...
    @property
    def server_args(self) -> Mapping[str, ArgumentValue]: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def secret_args(self) -> Mapping[str, object]: ...


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a launch runs: its port, and the uuids of its GPUs in the order of their index."""

    port: int
    gpu_uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """What is executed on the node; `argv` and `environment` hold no secret."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    secret_config: tuple[str, ...]
    """Names of the secret arguments that go into the config file, mode 600."""
    secret_argv: tuple[str, ...]
    """Names of the secret arguments that this version can only take on its command line."""


def engine_command(recipe: Recipe, placement: Placement, *, version: str | None, config_path: str) -> EngineCommand:
    """Return the command of a launch.

    `--enable-metrics` is added unless the profile says false, since the counters tell work from a stall. Full names
    are passed as they are: abbreviations such as `--tp` break between versions (facts: SGLang §0.10). A secret
    goes into a config file from 0.5.6 on; an unknown version is taken for a new one.
    """
    arguments: dict[str, ArgumentValue] = {"enable-metrics": True, **recipe.server_args}
    argv = [recipe.python, "-m", "sglang.launch_server", "--model-path", recipe.model_path]
    argv += [token for name, value in arguments.items() for token in argument_tokens(name, value)]
    argv += ["--port", str(placement.port)]
    secrets = tuple(recipe.secret_args)
    has_config = version is None or version_tuple(version) >= CONFIG_FILE_SINCE
    if secrets and has_config:
        argv += ["--config", config_path]
    environment = dict(recipe.env)
    if placement.gpu_uuids:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(placement.gpu_uuids)
    return EngineCommand(
        argv=tuple(argv),
        environment=environment,
        secret_config=secrets if has_config else (),
        secret_argv=() if has_config else secrets,
    )


def config_file(secrets: Mapping[str, str]) -> str:
    """Return the YAML that carries the secret arguments; a JSON string is a YAML string."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in secrets.items())


def version_tuple(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `0.5.10.post1` gives (0, 5, 10)."""
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def listening_host(recipe: Recipe) -> str:
    """Return the address on which the engine will listen: loopback unless the profile says otherwise."""
    host = recipe.server_args.get("host")
    return host if isinstance(host, str) and host else "127.0.0.1"


def probe_host(recipe: Recipe) -> str:
    """Return the node-local address on which the engine answers; wildcard addresses answer on loopback."""
    host = listening_host(recipe)
    return "127.0.0.1" if host in {"0.0.0.0", "::"} else host  # noqa: S104


def is_log_quiet(recipe: Recipe) -> bool:
    """Tell whether the log level hides the line by which a server says that it is ready."""
    return str(recipe.server_args.get("log-level", "info")).lower() in QUIET_LEVELS
