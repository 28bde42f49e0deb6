"""Marks as plain JSON values and back, so that a new start of the service knows what stood still before it.

Counters are cumulative: what did not move between the record and the next look stood still in between as well.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from service.servers.progress.marks import Grade, Mark, Marks, Picture, Spent, Track
from service.servers.progress.sight import LogPlace, MarkSource
from service.sglang.phases import Phase
from service.sglang.startup_log import Progress


def marks_record(marks: Marks) -> dict[str, Any]:
    """Return the marks as JSON values; about a kilobyte."""
    picture = marks.picture
    return {
        "begun_at": marks.begun_at.isoformat(),
        "at": picture.at.isoformat(),
        "tracks": {source: _track_record(track) for source, track in picture.tracks.items()},
        "seen": dict(picture.seen),
        "place": _place_record(picture.place),
        "phase_since": _text(picture.phase_since),
        "last": {grade: _mark_record(mark) for grade, mark in picture.last.items()},
        "reached": _mark_record(picture.reached) if picture.reached else None,
        "spent": [picture.spent.cpu_ticks, picture.spent.read_bytes, picture.spent.log_lines],
    }


def marks_from_record(record: Mapping[str, Any], *, at: datetime) -> Marks:
    """Return the marks of a record, watched anew from `at` on; KeyError or ValueError if it is not a record."""
    picture = Picture(
        at=datetime.fromisoformat(record["at"]),
        tracks={MarkSource(source): _track(row) for source, row in record["tracks"].items()},
        place=_place(record["place"]),
        phase_since=_instant(record["phase_since"]),
        last={Grade(grade): _mark(row) for grade, row in record["last"].items()},
        reached=_mark(record["reached"]) if record["reached"] else None,
        spent=Spent(*record["spent"]),
        seen={MarkSource(source): level for source, level in record["seen"].items()},
    )
    begun_at = datetime.fromisoformat(record["begun_at"])
    return Marks(begun_at=begun_at, watched_from=begun_at, picture=picture).watched_anew(at)


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _track_record(track: Track) -> list[Any]:
    return [track.level, track.known_since.isoformat(), _text(track.moved_at), track.gain]


def _track(row: list[Any]) -> Track:
    return Track(row[0], datetime.fromisoformat(row[1]), _instant(row[2]), row[3])


def _mark_record(mark: Mark) -> list[Any]:
    return [mark.source, mark.value, mark.at.isoformat(), mark.gain]


def _mark(row: list[Any]) -> Mark:
    return Mark(MarkSource(row[0]), row[1], datetime.fromisoformat(row[2]), row[3])


def _place_record(place: LogPlace) -> list[Any]:
    progress = place.progress
    counted = [progress.done, progress.total, progress.unit] if progress else None
    return [place.line_count, place.stay, place.phase, counted, _text(place.started_at), _text(place.last_line_at)]


def _place(row: list[Any]) -> LogPlace:
    phase, progress = Phase(row[2]) if row[2] else None, Progress(*row[3]) if row[3] else None
    return LogPlace(row[0], row[1], phase, progress, _instant(row[4]), _instant(row[5]))
