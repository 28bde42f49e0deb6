"""What a preflight check says: a code, an outcome, what was found, and what mends it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """How a check ended, from good to bad."""

    PASS = "pass"  # noqa: S105  # it is no password
    SKIPPED = "skipped"
    """It could not be judged, or does not apply; `found` says why. Never a silent "ok"."""
    WARN = "warn"
    """It may go wrong, or serve worse than it could."""
    FAIL = "fail"
    """It will crash, or run with weights that hold nothing; the launch is refused."""


class CheckCode(StrEnum):
    """Every check of a preflight, by the name with which a request may override it."""

    PROFILE_SECRETS = "profile_secrets"
    NODE_GPUS = "node_gpus"
    NODE_PORT = "node_port"
    NODE_DISK = "node_disk"
    NODE_SHM = "node_shm"
    NODE_LIMITS = "node_limits"
    NODE_DRIVER = "node_driver"
    NODE_CLOCK = "node_clock"
    ENGINE_ENVIRONMENT = "engine_environment"
    ENGINE_ARGUMENTS = "engine_arguments"

    MODEL_PATH = "model_path"
    MODEL_CONFIG = "model_config"
    MODEL_WEIGHT_FILES = "model_weight_files"
    MODEL_ARCHITECTURE = "model_architecture"
    MODEL_QUANTIZATION = "model_quantization"
    MODEL_TENSOR_PARALLEL = "model_tensor_parallel"
    MODEL_CONTEXT_LENGTH = "model_context_length"
    MODEL_WEIGHT_MEMORY = "model_weight_memory"

    SPECULATIVE_ARGUMENTS = "speculative_arguments"
    DRAFT_PATH = "draft_path"
    DRAFT_CONFIG = "draft_config"
    DRAFT_WEIGHT_FILES = "draft_weight_files"
    DRAFT_ALGORITHM = "draft_algorithm"
    DRAFT_ARCHITECTURE = "draft_architecture"
    DRAFT_CONTEXT_LENGTH = "draft_context_length"
    DRAFT_HIDDEN_SIZE = "draft_hidden_size"
    DRAFT_VOCABULARY = "draft_vocabulary"
    DRAFT_TOKEN_MAP = "draft_token_map"  # noqa: S105  # it is no password
    DRAFT_TARGET_CAPTURE = "draft_target_capture"
    DRAFT_LAYER_IDS = "draft_layer_ids"
    DRAFT_WEIGHT_KEYS = "draft_weight_keys"
    DRAFT_WEIGHT_SHAPES = "draft_weight_shapes"
    DRAFT_FLAGS = "draft_flags"
    DRAFT_TENSOR_PARALLEL = "draft_tensor_parallel"
    DRAFT_DTYPE = "draft_dtype"
    DRAFT_QUANTIZATION = "draft_quantization"
    DRAFT_ROPE = "draft_rope"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. `facts` are plain JSON values: numbers and names that the texts were made from."""

    code: CheckCode
    outcome: Outcome
    found: str
    remedy: str | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found; a check may find several."""

    outcome: Outcome
    found: str
    remedy: str | None = None


def fail(found: str, remedy: str | None = None) -> Finding:
    """Return a finding that refuses the launch."""
    return Finding(Outcome.FAIL, found, remedy)


def warn(found: str, remedy: str | None = None) -> Finding:
    """Return a finding that is told and refuses nothing."""
    return Finding(Outcome.WARN, found, remedy)


def concluded(
    code: CheckCode, findings: Iterable[Finding], *, otherwise: str, facts: Mapping[str, object] | None = None
) -> Check:
    """Return the check that these findings make: the worst outcome, the texts of all, the worst first.

    Without any finding it has passed, and `otherwise` says what was seen.
    """
    ordered = sorted(findings, key=lambda finding: _RANK[finding.outcome], reverse=True)
    if not ordered:
        return Check(code, Outcome.PASS, otherwise, None, facts or {})
    remedies = dict.fromkeys(finding.remedy for finding in ordered if finding.remedy)
    return Check(
        code=code,
        outcome=ordered[0].outcome,
        found="; ".join(dict.fromkeys(finding.found for finding in ordered)),
        remedy="; ".join(remedies) or None,
        facts=facts or {},
    )


def skipped(code: CheckCode, why: str, remedy: str | None = None) -> Check:
    """Return a check that could not be made, with the reason."""
    return Check(code, Outcome.SKIPPED, why, remedy)


def worst(checks: Iterable[Check]) -> Outcome:
    """Return the worst outcome of several checks; PASS for none."""
    return max((check.outcome for check in checks), key=_RANK.__getitem__, default=Outcome.PASS)


_RANK = {outcome: rank for rank, outcome in enumerate(Outcome)}
