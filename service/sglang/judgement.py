"""What an engine said of a launch's arguments before anything was launched, and for how long that may be believed."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

KEPT_JUDGEMENTS = 64
KEPT_FOR = timedelta(hours=1)


class JudgedBy(StrEnum):
    """Who judged the arguments, from the best judge to the last resort."""

    ENGINE_RESOLVED = "engine_resolved"
    """The engine's own code parsed and resolved them, as a start does before it spawns anything."""
    ENGINE_PARSED_ONLY = "engine_parsed_only"
    """The engine's own parser; the rest of its checks could not be had, `unjudged` says why."""
    HELP_TEXT = "help_text"
    """The flags that its `--help` names: which exist, not which values they take."""
    RULES = "rules"
    """What is known of the release, nothing of this engine."""


class EnvironmentFault(StrEnum):
    """Why an engine's environment cannot be used at all."""

    PYTHON_MISSING = "python_missing"
    PYTHON_NOT_EXECUTABLE = "python_not_executable"
    ENGINE_MISSING = "engine_missing"
    """This Python has no SGLang."""
    IMPORT_FAILED = "import_failed"


@dataclass(frozen=True, slots=True)
class GpuStandIn:
    """What is said of a GPU in its place while arguments are judged; the engine does not see the GPU itself.

    Without `compute_capability` ("9.0") the node is asked for it. A memory of 0 is one that the driver does not count.
    """

    name: str
    memory_mib: int
    compute_capability: str | None = None


@dataclass(frozen=True, slots=True)
class EngineOption:
    """One option of the engine's parser by all its spellings; `deprecated` is what the engine says of its end."""

    names: tuple[str, ...]
    deprecated: str | None = None
    successor: str | None = None
    """What to write instead, where the engine itself says it."""


@dataclass(frozen=True, slots=True)
class ResolutionError:
    """The exception with which a start with these arguments ends, and the engine's line that raised it."""

    kind: str
    message: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    source: str | None = None

    @property
    def place(self) -> str:
        """Return where it was raised, as far as that is known."""
        return f"{self.file}:{self.line} in {self.function}" if self.file else "an unknown place"


@dataclass(frozen=True, slots=True)
class JudgementTimes:
    """How long the parts of a judgement took in seconds; what was not done is None."""

    total_s: float
    imports_s: float | None = None
    parse_s: float | None = None
    resolve_s: float | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the engine of one environment said of one command line. Texts are the engine's own.

    `unjudged` says why the arguments were not resolved, or not even parsed, for a reason that lies in the looking and
    not in them; it is None when `how` is ENGINE_RESOLVED, or when parsing ended in an error. `stand_in` says how the
    GPUs were stood in for; None when nothing had to be.
    """

    how: JudgedBy
    engine_version: str | None
    times: JudgementTimes
    options: tuple[EngineOption, ...] = field(default=(), repr=False)
    parse_errors: tuple[str, ...] = ()
    resolution_error: ResolutionError | None = None
    warnings: tuple[str, ...] = ()
    unjudged: str | None = None
    stand_in: str | None = None
    environment_fault: EnvironmentFault | None = None
    environment_detail: str | None = None

    @property
    def is_definite(self) -> bool:
        """Tell whether asking again would give the same answer."""
        return self.how is JudgedBy.ENGINE_RESOLVED or (
            self.how is JudgedBy.ENGINE_PARSED_ONLY and self.unjudged is None
        )


@dataclass(frozen=True, slots=True)
class JudgementStamps:
    """What a judgement depends on and only the node can tell: the engine, the login, and the models' configurations.

    `engine` and `login` are digests; `models` has one text for each path that was asked for.
    """

    engine_version: str | None
    engine: str
    login: str
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgementKey:
    """All that a judgement depends on; equal keys mean equal judgements."""

    node: str
    python: str
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    gpus: tuple[GpuStandIn, ...]
    stamps: JudgementStamps


def judgement_key(
    *,
    node: str,
    python: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    gpus: Sequence[GpuStandIn],
    stamps: JudgementStamps,
) -> JudgementKey:
    """Return the key of a judgement. The port and the choice among equal GPUs change nothing and are left out."""
    variables = {name: value for name, value in environment.items() if name != "CUDA_VISIBLE_DEVICES"}
    return JudgementKey(
        node=node,
        python=python,
        argv=_without_port(argv),
        environment=tuple(sorted(variables.items())),
        gpus=tuple(gpus),
        stamps=stamps,
    )


class JudgementCache:
    """The newest definite judgements. An engine is asked again after an hour: not all that it read is in the key."""

    def __init__(self, *, limit: int = KEPT_JUDGEMENTS, kept_for: timedelta = KEPT_FOR) -> None:
        self._limit = limit
        self._kept_for = kept_for
        self._kept: OrderedDict[JudgementKey, tuple[Judgement, datetime]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: JudgementKey, *, now: datetime) -> Judgement | None:
        """Return the judgement kept for a key, None when there is none or it is too old."""
        judgement, kept_at = self._kept.get(key, (None, now))
        if judgement is not None and not timedelta(0) <= now - kept_at < self._kept_for:
            del self._kept[key]
            return None
        return judgement

    def keep(self, key: JudgementKey, judgement: Judgement, *, now: datetime) -> None:
        """Keep a judgement if it is definite; the oldest one goes when there are too many.

        Judgements of one engine share its list of options, which is most of their size.
        """
        if not judgement.is_definite:
            return
        same = next((kept for kept, _ in self._kept.values() if kept.options == judgement.options), None)
        self._kept[key] = (replace(judgement, options=same.options) if same else judgement, now)
        self._kept.move_to_end(key)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)


def _without_port(argv: Sequence[str]) -> tuple[str, ...]:
    kept: list[str] = []
    is_value = False
    for word in argv:
        if is_value:
            is_value = False
        elif word == "--port":
            is_value = True
        elif not word.startswith("--port="):
            kept.append(word)
    return tuple(kept)
