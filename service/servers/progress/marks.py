"""Which signs of progress a start has given, and since when each of their sources has been still.

What counts, and why:

- *Decisive* marks: the log's phase and its n of m; 4 MiB read from storage; GPU memory at a new height; the listener; a
  better answer of /health; tokens. No frozen start gives them, so they carry a start however long it takes.
- *Supporting* marks: a process more or less, resident memory at a new height. They are what a compilation shows:
  ninja, nvcc and ptxas come and go. After the weights they carry for a while only (see `judge`).
- *Talk*: lines of the log. A download shows nothing else. But a frozen start can talk too: PyTorch repeats its
  complaints about a stuck peer each minute. So after the weights it carries for a short while only.
- CPU time is *weak*: it is kept as evidence and re-arms nothing. A rank that is frozen in a graph capture or a
  collective spins on a core at 100 %, and one that warms up may use none.
- Log lines count for nothing once the port is bound: the HTTP front logs a line for each request, and we send some.

A new connection has a new observer, which finds the processes only by and by: for REJOIN_S what is summed over them is
passed over, and then compared with what it was before the gap. A new service reads the log anew: only what goes beyond
the furthest place ever seen is a mark. A log that is less far after REJOIN_S was cut: it is followed from where it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from service.servers.observation import Observation
from service.servers.progress.sight import LogPlace, MarkSource, Sight, is_moved, level_text, sight_of
from service.sglang.metrics import EngineCounters
from service.sglang.phases import Phase
from service.sglang.startup_log import Progress


class Grade(StrEnum):
    """How much a mark proves."""

    DECISIVE = "decisive"
    SUPPORTING = "supporting"
    TALK = "talk"


GRADES: Mapping[Grade, tuple[MarkSource, ...]] = {
    Grade.DECISIVE: (
        MarkSource.PHASE,
        MarkSource.PROGRESS,
        MarkSource.HEALTH,
        MarkSource.LISTENER,
        MarkSource.COUNTERS,
        MarkSource.BYTES_READ,
        MarkSource.GPU_MEMORY,
    ),
    Grade.SUPPORTING: (MarkSource.PROCESSES, MarkSource.RESIDENT_MEMORY),
    Grade.TALK: (MarkSource.LOG_LINES,),
}
"""Where several move at once the first one is named. CPU has no grade."""
_OF_THE_LOG = (MarkSource.PHASE, MarkSource.PROGRESS)
_SUMS = (MarkSource.CPU, MarkSource.BYTES_READ, MarkSource.RESIDENT_MEMORY, MarkSource.PROCESSES)
REJOIN_S = 10.0
"""The observer looks for the processes of a launch every 2 s."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A move of one source: to which value, when, and by how much in the source's own unit."""

    source: MarkSource
    value: str
    at: datetime
    gain: float = 0.0


@dataclass(frozen=True, slots=True)
class Track:
    """One source: its level at the last move, when that was and by how much; `moved_at` None when it never did."""

    level: float
    known_since: datetime
    moved_at: datetime | None = None
    gain: float = 0.0

    @property
    def still_since(self) -> datetime:
        """Return since when nothing was seen to move; at most since it is known."""
        return self.moved_at or self.known_since


@dataclass(frozen=True, slots=True)
class Spent:
    """What the start used since its last mark that counts: work without progress, or no work at all."""

    cpu_ticks: float = 0.0
    read_bytes: float = 0.0
    log_lines: float = 0.0


@dataclass(frozen=True, slots=True)
class Picture:
    """What is known after some facts; `last` holds the last mark of each grade."""

    at: datetime
    tracks: Mapping[MarkSource, Track] = field(default_factory=dict)
    place: LogPlace = field(default_factory=LogPlace)
    phase_since: datetime | None = None
    last: Mapping[Grade, Mark] = field(default_factory=dict)
    reached: Mark | None = None
    """The last place in the log that was reached: a phase, or an n of m."""
    spent: Spent = field(default_factory=Spent)
    seen: Mapping[MarkSource, float] = field(default_factory=dict)
    """The levels that were seen last, moved or not."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The fold over what the looks at one start saw. Equal instants are one look: their order does not matter.

    `begun_at`: when watching began, which is when stillness begins to be known. `watched_from`: the same for the
    present connection; `lapsed_at`: when the one before it was last heard.
    """

    begun_at: datetime
    watched_from: datetime
    picture: Picture
    lapsed_at: datetime | None = None
    _before: Picture | None = None
    """The picture before the present instant."""
    _sight: Sight | None = None

    @classmethod
    def begin(cls, at: datetime) -> "Marks":
        """Return the marks of a start that is watched from `at` on."""
        return cls(begun_at=at, watched_from=at, picture=Picture(at=at))

    def fold(
        self, observation: Observation, *, at: datetime | None = None, counters: EngineCounters | None = None
    ) -> "Marks":
        """Fold one look in; facts older than those that are known are passed over.

        `at` is when it was seen, by the clock that `judge` gets as now; the observation's own instant by default.
        """
        seen_at = at or observation.at
        sight = sight_of(observation, at=seen_at, counters=counters)
        if self.lapsed_at is not None and (seen_at - self.watched_from).total_seconds() < REJOIN_S:
            sight = sight.without(_SUMS)
        if self._sight is not None and self._sight.at == seen_at:
            before = self._before or self.picture
            sight = self._sight.merged(sight)
        elif seen_at < self.picture.at:
            return self
        else:
            before = self.picture
        start = _moved_back(before, sight.place) if self._is_cut(before, sight) else before
        return replace(self, picture=_advanced(start, sight), _before=before, _sight=sight)

    def _is_cut(self, before: Picture, sight: Sight) -> bool:
        """Tell whether the log has become shorter in the gap: it was read by now, and is less far than it was."""
        is_read = self.lapsed_at is not None and (sight.at - self.watched_from).total_seconds() >= REJOIN_S
        return is_read and 0 < sight.place.line_count < before.place.line_count

    def watched_anew(self, at: datetime) -> "Marks":
        """Return the marks after a gap in the watch, as when a connection was lost."""
        return replace(self, watched_from=max(at, self.picture.at), lapsed_at=self.picture.at)

    @property
    def phase(self) -> Phase | None:
        """Return the phase that the log tells, None before it tells one."""
        return self.picture.place.phase

    @property
    def phase_since(self) -> datetime:
        """Return when the phase was entered."""
        return self.picture.phase_since or self.begun_at

    @property
    def progress(self) -> Progress | None:
        """Return the n of m in the phase."""
        return self.picture.place.progress

    @property
    def last_mark(self) -> Mark | None:
        """Return the last mark that counts, of several at once the one that proves most; None before the first."""
        known = [self.picture.last[grade] for grade in Grade if grade in self.picture.last]
        return max(known, key=lambda mark: mark.at, default=None)

    def still_since(self) -> Mapping[MarkSource, datetime]:
        """Return for each readable source since when it has been still."""
        return {source: track.still_since for source, track in self.picture.tracks.items()}


def _moved_back(picture: Picture, place: LogPlace) -> Picture:
    """Return the picture of a log that was cut: where it is now is no mark, what follows is."""
    tracks = dict(picture.tracks)
    if MarkSource.LOG_LINES in tracks:
        tracks[MarkSource.LOG_LINES] = replace(tracks[MarkSource.LOG_LINES], level=float(place.line_count))
    return replace(picture, place=place, tracks=tracks)


def _advanced(before: Picture, sight: Sight) -> Picture:
    """Return the picture after one instant."""
    tracks = dict(before.tracks)
    moved: dict[MarkSource, Mark] = {}
    for source, level in sight.levels.items():
        track, mark = _tracked(before.tracks.get(source), source, level, sight.at)
        tracks[source] = track
        if mark is not None:
            moved[source] = mark
    is_further = sight.place.line_count >= before.place.line_count
    if before.tracks and is_further:
        moved.update(_log_marks(before, sight, tracks))
    graded = _graded(moved, is_bound=sight.is_bound)
    reached = _first(moved, _OF_THE_LOG) or before.reached
    phase_since = sight.at if MarkSource.PHASE in moved else before.phase_since
    if not before.tracks and sight.place.phase is not None:
        reached = graded[Grade.DECISIVE] = _caught_up(sight)
        phase_since = min(sight.place.started_at or sight.at, sight.at)
    return Picture(
        at=sight.at,
        tracks=tracks,
        place=sight.place if is_further else before.place,
        phase_since=phase_since,
        last={**before.last, **graded},
        reached=reached,
        spent=Spent() if graded else _spent(before, sight),
        seen={**before.seen, **sight.levels},
    )


def _tracked(track: Track | None, source: MarkSource, level: float, at: datetime) -> tuple[Track, Mark | None]:
    if track is None:
        return Track(level, at), None
    has_moved = is_moved(source, track.level, level)
    if has_moved is None:
        return replace(track, level=level), None
    if not has_moved:
        return track, None
    gain = level - track.level
    return Track(level, track.known_since, at, gain), Mark(source, level_text(source, level), at, gain)


def _log_marks(before: Picture, sight: Sight, tracks: dict[MarkSource, Track]) -> dict[MarkSource, Mark]:
    """Return the marks of a place in the log that is no less far than the furthest."""
    found: dict[MarkSource, Mark] = {}
    if sight.place.stay_key != before.place.stay_key:
        found[MarkSource.PHASE] = Mark(MarkSource.PHASE, str(sight.place.phase), sight.at)
    progress = sight.place.progress
    if progress is not None and (progress != before.place.progress or found):
        found[MarkSource.PROGRESS] = Mark(MarkSource.PROGRESS, spoken(progress), sight.at, progress.done)
    for source in found:
        known = before.tracks.get(source)
        tracks[source] = Track(0.0, known.known_since if known else sight.at, sight.at)
    return found


def _caught_up(sight: Sight) -> Mark:
    """Return the mark of a log that had come far before it was first seen: its own instants say when."""
    place = sight.place
    if place.progress is not None:
        at = min(place.last_line_at or sight.at, sight.at)
        return Mark(MarkSource.PROGRESS, spoken(place.progress), at, place.progress.done)
    return Mark(MarkSource.PHASE, str(place.phase), min(place.started_at or sight.at, sight.at))


def spoken(progress: Progress) -> str:
    """Return an n of m as words, as in "3 of 52 graphs"."""
    return f"{progress.done} of {progress.total} {progress.unit}"


def _graded(moved: Mapping[MarkSource, Mark], *, is_bound: bool) -> dict[Grade, Mark]:
    """Return the best new mark of each grade."""
    found: dict[Grade, Mark] = {}
    for grade, sources in GRADES.items():
        mark = _first(moved, sources)
        if mark is not None and not (grade is Grade.TALK and is_bound):
            found[grade] = mark
    return found


def _first(moved: Mapping[MarkSource, Mark], order: tuple[MarkSource, ...]) -> Mark | None:
    return next((moved[source] for source in order if source in moved), None)


def _spent(before: Picture, sight: Sight) -> Spent:
    def gained(source: MarkSource) -> float:
        level = sight.levels.get(source)
        return 0.0 if level is None else max(0.0, level - before.seen.get(source, level))

    return Spent(
        before.spent.cpu_ticks + gained(MarkSource.CPU),
        before.spent.read_bytes + gained(MarkSource.BYTES_READ),
        before.spent.log_lines + max(0, sight.place.line_count - before.place.line_count),
    )
