"""How the tensors of a checkpoint meet the parameters of a class: matched, unexpected, missing, of the wrong shape.

The engine's loaders go over the tensors of the files, never over the parameters: what gets nothing is not reported by
any release (facts: drafts §2.1). Here both sides are gone over.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from service.sglang.model_files import Tensor
from service.sglang.releases import V0_5_6
from service.sglang.versions import Version

Shape = tuple[int | None, ...]
"""Extents; None where the configuration does not tell one."""


class Kind(StrEnum):
    """How a parameter takes a tensor of another shape (facts: drafts §2.2)."""

    PLAIN = "plain"
    """Any difference is an error."""
    SLICED_ROWS = "sliced_rows"
    """Surplus rows are cut off silently, missing rows are an error."""
    PADDED_ROWS = "padded_rows"
    """Surplus rows are cut off silently, missing rows become zeros from 0.5.6 on."""
    PADDED_COLUMNS = "padded_columns"
    """The same of columns."""


class Left(StrEnum):
    """What a parameter holds that got nothing."""

    RANDOM = "random numbers"
    UNINITIALISED = "uninitialised memory"
    ONES = "ones"


class Need(StrEnum):
    """What it means when a parameter gets nothing."""

    REQUIRED = "required"
    TOLERATED = "tolerated"
    """The draft works, less well than it could."""
    OPTIONAL = "optional"
    """It is replaced, or not used."""


class Effect(StrEnum):
    """What the loader does with a tensor of the wrong shape."""

    ERROR = "error"
    CUT = "cut"
    PADDED = "padded"


@dataclass(frozen=True, slots=True)
class Expected:
    """One tensor that a class takes, by the name that a file for this release should use.

    Several may go into one `parameter`, each as its own `part`.
    """

    name: str
    parameter: str
    shape: Shape
    kind: Kind
    left: Left
    need: Need = Need.REQUIRED
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a loader puts a tensor: a parameter, or one part of a fused one."""

    parameter: str
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """Why a loader does not take a tensor. Harmless when the class is not meant to have it."""

    why: str
    is_harmless: bool = False


TOKEN_MAP = Place("d2t")
"""The place of the token map, which is no parameter."""


@dataclass(frozen=True, slots=True)
class Loader:
    """The loading of one class of one release: what it expects, and where it puts each name."""

    class_name: str
    release: Version
    expected: tuple[Expected, ...]
    place: Callable[[str], Place | Dropped]


@dataclass(frozen=True, slots=True)
class Unexpected:
    """A tensor that is dropped."""

    name: str
    why: str
    is_harmless: bool


@dataclass(frozen=True, slots=True)
class WrongShape:
    """A tensor whose shape is not the one that the configuration asks for."""

    name: str
    shape: tuple[int, ...]
    wanted: Shape
    effect: Effect


@dataclass(frozen=True, slots=True)
class Match:
    """The result. `matched` are names of tensors with the parameter they go to."""

    loader: Loader
    matched: tuple[tuple[str, Place], ...] = ()
    unexpected: tuple[Unexpected, ...] = ()
    missing: tuple[Expected, ...] = ()
    wrong_shapes: tuple[WrongShape, ...] = ()
    overwritten: tuple[str, ...] = field(default=())
    """Tensors whose place another one takes too; which of them stays depends on the order of the files."""

    @property
    def lost(self) -> tuple[Unexpected, ...]:
        """Return the dropped tensors that may matter."""
        return tuple(item for item in self.unexpected if not item.is_harmless)

    @property
    def required_missing(self) -> tuple[Expected, ...]:
        """Return what the draft cannot do without."""
        return tuple(item for item in self.missing if item.need is Need.REQUIRED)


def match(tensors: Iterable[Tensor], loader: Loader) -> Match:
    """Return how these tensors would be loaded."""
    by_parameter: dict[str, list[Expected]] = {}
    for expected in loader.expected:
        by_parameter.setdefault(expected.parameter, []).append(expected)
    matched: list[tuple[str, Place]] = []
    unexpected: list[Unexpected] = []
    wrong: list[WrongShape] = []
    overwritten: list[str] = []
    taken: set[Expected] = set()
    for tensor in tensors:
        place = loader.place(tensor.name)
        if isinstance(place, Dropped):
            unexpected.append(Unexpected(tensor.name, place.why, place.is_harmless))
            continue
        matched.append((tensor.name, place))
        parts = [item for item in by_parameter.get(place.parameter, ()) if place.part in (None, item.part)]
        if taken.intersection(parts):
            overwritten.append(tensor.name)
        taken.update(parts)
        mismatch = _mismatch(tensor, parts, loader.release)
        if mismatch:
            wrong.append(mismatch)
    missing = tuple(item for item in loader.expected if item not in taken)
    return Match(loader, tuple(matched), tuple(unexpected), missing, tuple(wrong), tuple(overwritten))


def _mismatch(tensor: Tensor, parts: Sequence[Expected], release: Version) -> WrongShape | None:
    """Return what is wrong with a tensor's shape.

    A tensor for all parts has their rows one after the other, and is sliced into them.
    """
    if not parts:
        return None
    first = parts[0]
    wanted = first.shape
    if len(parts) > 1:
        rows = [part.shape[0] for part in parts]
        total = None if None in rows else sum(row for row in rows if row is not None)
        wanted = (total, *first.shape[1:])
    effect = _effect(tensor.shape, wanted, Kind.SLICED_ROWS if len(parts) > 1 else first.kind, release)
    return WrongShape(tensor.name, tensor.shape, wanted, effect) if effect else None


def _effect(shape: tuple[int, ...], wanted: Shape, kind: Kind, release: Version) -> Effect | None:
    """Return what the loader does with a shape; None when it fits as far as is known."""
    if len(shape) != len(wanted):
        return Effect.ERROR
    wrong = [axis for axis, extent in enumerate(wanted) if extent is not None and shape[axis] != extent]
    if not wrong:
        return None
    loose = {Kind.PLAIN: None, Kind.SLICED_ROWS: 0, Kind.PADDED_ROWS: 0, Kind.PADDED_COLUMNS: 1}[kind]
    if wrong != [loose]:
        return Effect.ERROR
    extent = wanted[wrong[0]]
    if extent is not None and shape[wrong[0]] > extent:
        return Effect.CUT
    return Effect.PADDED if kind is not Kind.SLICED_ROWS and release >= V0_5_6 else Effect.ERROR
