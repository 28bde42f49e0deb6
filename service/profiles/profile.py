"""A profile: the recipe for a server, with the rules that its fields obey."""

import re
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from service.sglang.arguments import SECRET_ARGUMENTS, ArgumentValue, plain_name, refusal

ABSOLUTE_PATH = r"^/[^\x00\r\n]*$"
_ENVIRONMENT_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_SECRET_ENVIRONMENT_NAME = re.compile(r"(_TOKEN|_KEY|_SECRET|_PASSWORD)$|^(TOKEN|PASSWORD|SECRET)$", re.IGNORECASE)

RESERVED_ENVIRONMENT = frozenset({"VIGIL_LAUNCH_ID", "SPT_NOENV", "CUDA_VISIBLE_DEVICES"})
"""Variables that Vigil sets for each launch itself."""


class SecretReference(BaseModel):
    """Where a secret lies; the secret itself is read at launch, and never stored by Vigil. Give exactly one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = Field(
        default=None, description="An environment variable of the Vigil service."
    )
    file: Annotated[str, StringConstraints(pattern=ABSOLUTE_PATH)] | None = Field(
        default=None, description="A file on the machine of the Vigil service, mode 600; the first line counts."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("give exactly one of env and file")
        return self


class Policy(StrEnum):
    """What follows a crash or a suspected hang."""

    ALERT = "alert"
    """It is recorded, and an operator decides."""
    RESTART = "restart"
    STOP = "stop"


class RestartLimits(BaseModel):
    """How a policy restarts, and when it stops trying."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pause_s: Annotated[int, Field(strict=True, ge=0, le=3600)] = Field(
        default=10, description="The pause before the first restart in the window; it doubles with each."
    )
    max_restarts: Annotated[int, Field(strict=True, ge=1, le=100)] = Field(
        default=3, description="Restarts within the window."
    )
    window_s: Annotated[int, Field(strict=True, ge=60, le=604_800)] = 3600
    same_diagnosis: Annotated[int, Field(strict=True, ge=1, le=100)] = Field(
        default=2, description="So many ends in a row with the same diagnosis end the restarts."
    )


class Limits(BaseModel):
    """Hard limits on a start and on what comes of it; the judgement of slow and hung starts does not need them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    start_s: Annotated[int, Field(strict=True, ge=10, le=86_400)] | None = Field(
        default=None, description="A start that is not ready after this many seconds has failed; none by default."
    )
    hang_after_s: Annotated[int, Field(strict=True, ge=1, le=86_400)] | None = Field(
        default=None,
        description="A start without a sign of progress for so long is suspected hung; by default the deadline is "
        "learned from earlier starts.",
    )
    min_accept_length: Annotated[float, Field(strict=True, ge=1, le=1_000, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Tokens per verify step that speculation should reach under load, the bonus token included; below "
        "it the finding `speculation_below_floor` is raised. By default a hint by algorithm and steps.",
        examples=[2.2],
    )


class Profile(BaseModel):
    """One version of a recipe for a server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    python: Annotated[str, StringConstraints(pattern=ABSOLUTE_PATH, max_length=4096)] = Field(
        description="Absolute path, on the node, of the Python that has SGLang installed.",
        examples=["/opt/sglang/bin/python"],
    )
    model_path: Annotated[str, StringConstraints(pattern=r"^[^\x00\r\n-][^\x00\r\n]*$", max_length=4096)] = Field(
        description="A directory on the node, or a hub id.", examples=["/models/qwen3-235b"]
    )
    server_args: dict[str, ArgumentValue] = Field(
        default_factory=dict,
        description="Arguments of sglang.launch_server by name without dashes. true gives the bare flag, false and "
        "null leave it out, a list gives several values, an object is passed as JSON. Unknown names are passed on.",
        examples=[{"tp-size": 8, "mem-fraction-static": 0.85, "disable-radix-cache": True}],
    )
    env: dict[str, str] = Field(default_factory=dict, description="Environment variables of the engine; no secrets.")
    secret_args: dict[str, SecretReference] = Field(
        default_factory=dict, description="Secret arguments such as api-key, by reference."
    )
    secret_env: dict[str, SecretReference] = Field(
        default_factory=dict, description="Secret environment variables such as HF_TOKEN, by reference."
    )
    gpu_count: Annotated[int, Field(strict=True, ge=0, le=64)] = Field(
        description="How many GPUs a server of this profile gets."
    )
    stop_grace_s: Annotated[int, Field(strict=True, ge=1, le=3600)] = Field(
        default=60, description="Seconds between SIGTERM and SIGKILL."
    )
    limits: Limits = Limits()
    on_crash: Policy = Field(default=Policy.ALERT, description="What follows an end that nobody asked for.")
    on_hang: Policy = Field(
        default=Policy.ALERT, description="What follows a start that is suspected hung, once its stacks are kept."
    )
    restart: RestartLimits = RestartLimits()

    @field_validator("server_args", mode="before")
    @classmethod
    def _plain_argument_names(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {plain_name(str(name)): item for name, item in value.items()}

    @field_validator("server_args")
    @classmethod
    def _allowed_arguments(cls, value: dict[str, ArgumentValue]) -> dict[str, ArgumentValue]:
        for name, item in value.items():
            reason = refusal(name, item)
            if reason:
                raise ValueError(reason)
        return value

    @field_validator("env", "secret_env")
    @classmethod
    def _allowed_variables(cls, value: dict[str, object]) -> dict[str, object]:
        for name, item in value.items():
            if not _ENVIRONMENT_NAME.match(name):
                raise ValueError(f"{name!r} is not a variable name")
            if name in RESERVED_ENVIRONMENT:
                raise ValueError(f"{name} cannot be set: Vigil sets it for each launch")
            if isinstance(item, str) and "\x00" in item:
                raise ValueError(f"the value of {name} holds a NUL character")
        return value

    @field_validator("env")
    @classmethod
    def _no_secrets_in_the_open(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if _SECRET_ENVIRONMENT_NAME.search(name):
                raise ValueError(f"{name} looks like a secret: give it in secret_env, as a reference")
        return value

    @field_validator("secret_args")
    @classmethod
    def _known_secret_arguments(cls, value: dict[str, SecretReference]) -> dict[str, SecretReference]:
        plain = {plain_name(name): item for name, item in value.items()}
        for name in plain:
            if name not in SECRET_ARGUMENTS:
                raise ValueError(f"{name} is not a secret argument; known are {', '.join(sorted(SECRET_ARGUMENTS))}")
        return plain
