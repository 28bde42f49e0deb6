"""What an importer returns, and the pieces that all importers share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.benchmarks.importing.documents import Json
from service.benchmarks.results import Distribution, Result

PARSER_VERSION = 1


class ResultKind(StrEnum):
    """Which tool wrote a file, and in which format."""

    SGLANG = "sglang_jsonl"
    VLLM = "vllm_serve_json"
    GUIDELLM = "guidellm_json"
    AIPERF = "aiperf_json"
    GENAI_PERF = "genai_perf_json"
    EVALSCOPE = "evalscope_json"


@dataclass(frozen=True, slots=True)
class Mapped:
    """One result in our schema, beside what of its source has no place there."""

    result: Result
    unmapped: Mapping[str, Json] = field(default_factory=dict)
    """Fields of the source as they are, without per-request arrays and long texts."""
    notes: tuple[str, ...] = ()
    """What was left out or could not be known, in words."""


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """All that one file holds."""

    kind: ResultKind
    sha256: str
    size_bytes: int
    results: tuple[Mapped, ...]


def distribution(
    values: Mapping[str, float | None], *, factor: float = 1.0, n: int | None = None
) -> Distribution | None:
    """Return a distribution by statistic, each times `factor`; None when no statistic is known."""
    known = {name: value * factor for name, value in values.items() if value is not None}
    return Distribution(**known, n=n) if known else None


def said(notes: Iterable[str | None]) -> tuple[str, ...]:
    """Return the notes that there are, each once."""
    return tuple(dict.fromkeys(note for note in notes if note))
