"""Times by the rules of cron: five fields, checked, and spelled out so that no two programs read them differently."""

from dataclasses import dataclass

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
MAX_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Cron:
    """When something is due. None is every; weekdays are 0 for Sunday to 6."""

    minutes: tuple[int, ...] | None
    hours: tuple[int, ...] | None
    days: tuple[int, ...] | None
    months: tuple[int, ...] | None
    weekdays: tuple[int, ...] | None

    @property
    def weekday_names(self) -> tuple[str, ...] | None:
        """Return the weekdays by name: programs count them from Sunday or from Monday."""
        return None if self.weekdays is None else tuple(WEEKDAYS[day] for day in self.weekdays)


@dataclass(frozen=True, slots=True)
class _Field:
    title: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, MONTHS),
    _Field("day of week", 0, 7, WEEKDAYS),
)


def parse_cron(text: str) -> Cron:
    """Return the times that five fields name: minute, hour, day of month, month, day of week.

    Each is `*`, or a list of numbers, names, ranges and steps: `*/15`, `1-5`, `mon,thu`. Sunday is 0 and 7. Raises
    ValueError for anything else, for a day of month beside a day of week (cron would take either, others both), and for
    a date that never comes.
    """
    fields = text.split()
    if len(text) > MAX_LENGTH or len(fields) != len(_FIELDS):
        raise ValueError("give five fields: minute, hour, day of month, month, day of week, such as '0 3 * * *'")
    minutes, hours, days, months, weekdays = (
        _values(written.lower(), field) for written, field in zip(fields, _FIELDS, strict=True)
    )
    if weekdays is not None:
        weekdays = tuple(sorted({day % 7 for day in weekdays}))
    if days is not None and weekdays is not None:
        raise ValueError("give a day of month or a day of week, not both: programs read the two together differently")
    if days is not None and min(days) > max(_LONGEST[month - 1] for month in months or range(1, 13)):
        raise ValueError("no such day ever comes")
    return Cron(minutes, hours, days, months, weekdays)


def _values(written: str, field: _Field) -> tuple[int, ...] | None:
    if written == "*":
        return None
    values: set[int] = set()
    for item in written.split(","):
        span, has_step, step = item.partition("/")
        low, high = _span(span, field, has_step=bool(has_step))
        stride = _number(step, field) if has_step else 1
        if stride < 1 or low > high:
            raise ValueError(f"{field.title}: {item!r} is no range of it")
        values.update(range(low, high + 1, stride))
    return tuple(sorted(values))


def _span(span: str, field: _Field, *, has_step: bool) -> tuple[int, int]:
    if span == "*":
        return field.low, field.high
    first, has_end, last = span.partition("-")
    low = _value(first, field)
    if has_end:
        return low, _value(last, field)
    return low, field.high if has_step else low


def _value(text: str, field: _Field) -> int:
    if text in field.names:
        return field.names.index(text) + field.low
    value = _number(text, field)
    if not field.low <= value <= field.high:
        raise ValueError(f"{field.title}: {value} does not lie between {field.low} and {field.high}")
    return value


def _number(text: str, field: _Field) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 2):  # noqa: PLR2004  no field has more digits
        raise ValueError(f"{field.title}: {text!r} is no number of it")
    return int(text)
