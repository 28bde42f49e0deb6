"""A small chart in SVG: axes, lines, points, error bars, marks, legend; readable in light and dark, by eye and by ear.

Every text is escaped and every number is formatted here; nothing else writes markup.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

WIDTH, HEIGHT = 980, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 196, 52, 56
_PLOT_RIGHT, _PLOT_BOTTOM = WIDTH - _RIGHT, HEIGHT - _BOTTOM
MAX_LABEL = 48
MAX_LEGEND = 20
_LIGHT = ("#0072b2", "#d55e00", "#00795c", "#a4508b", "#8a6d00", "#3b5bdb", "#57606a")
_DARK = ("#56b4e9", "#ff9a56", "#3fd0a4", "#e39bd0", "#e6c84f", "#8ea5ff", "#9198a1")
SERIES_COUNT = len(_LIGHT)


def _series_style(colours: Sequence[str]) -> str:
    return "".join(
        f".s{place} .line,.s{place} .bar{{stroke:{colour}}}.s{place} .dot{{fill:{colour};stroke:{colour}}}"
        for place, colour in enumerate(colours)
    )


_STYLE = (
    "svg{font-family:system-ui,sans-serif;font-size:12px}.line{fill:none;stroke-width:1.8}.bar{opacity:.6}"
    ".limit{stroke-dasharray:6 4}.mark{stroke-dasharray:2 3}"
    ".bg{fill:#fff}.ink{fill:#1b1f24}.soft{fill:#57606a}.grid{stroke:#d0d7de}.axis{stroke:#57606a}"
    ".limit{stroke:#b35900}.limit-text{fill:#b35900}.mark{stroke:#8250df}.mark-text{fill:#8250df}"
    + _series_style(_LIGHT)
    + "@media (prefers-color-scheme:dark){"
    ".bg{fill:#0d1117}.ink{fill:#e6edf3}.soft{fill:#9198a1}.grid{stroke:#30363d}.axis{stroke:#9198a1}"
    ".limit{stroke:#f0a35e}.limit-text{fill:#f0a35e}.mark{stroke:#c297ff}.mark-text{fill:#c297ff}"
    + _series_style(_DARK)
    + "}"
)
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_SHAPES = ("circle", "square", "diamond", "triangle")


@dataclass(frozen=True, slots=True)
class Dot:
    """A point with its interval in either direction; `label` is drawn beside it, `title` is told on hover."""

    x: float
    y: float
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_high: float | None = None
    label: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together; shape and colour tell series apart."""

    name: str
    dots: tuple[Dot, ...]
    is_connected: bool = True


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across the chart: a limit (horizontal) or an event (vertical)."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn. `x_ticks` replaces the computed ticks: places and their texts."""

    title: str
    description: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    limits: tuple[Mark, ...] = ()
    events: tuple[Mark, ...] = ()
    x_ticks: tuple[tuple[float, str], ...] | None = None
    is_zero_based: bool = True


@dataclass(slots=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


@dataclass(slots=True)
class _Drawing:
    parts: list[str] = field(default_factory=list)

    def line(self, kind: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        (x1, y1), (x2, y2) = start, end
        self.parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def text(self, kind: str, place: tuple[float, float], text: str, anchor: str = "start") -> None:
        x, y = place
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}</text>')


def render(chart: Chart) -> str:
    """Return the chart as an SVG document. A chart without points says so; numbers that are not finite are left out."""
    series = tuple(_finite_series(item) for item in chart.series)
    dots = [dot for item in series for dot in item.dots]
    drawing = _Drawing()
    drawing.text("ink", (WIDTH / 2, 22), shortened(chart.title, 100), "middle")
    if dots:
        x_scale, y_scale = _scales(chart, dots)
        _draw_axes(drawing, chart, x_scale, y_scale)
        _draw_marks(drawing, chart, x_scale, y_scale)
        for place, item in enumerate(series):
            _draw_series(drawing, place, item, (x_scale, y_scale))
        _draw_legend(drawing, series)
    else:
        drawing.text("soft", (WIDTH / 2, HEIGHT / 2), "No measured points.", "middle")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-labelledby="t d"><title id="t">{escaped(chart.title)}</title>'
        f'<desc id="d">{escaped(chart.description)}</desc><style>{_STYLE}</style>'
        f'<rect class="bg" width="{WIDTH}" height="{HEIGHT}"/>'
    )
    return head + "".join(drawing.parts) + "</svg>\n"


def escaped(text: str) -> str:
    """Return a text for markup; characters that XML forbids become question marks."""
    safe = _FORBIDDEN.sub("?", text)
    for raw, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        safe = safe.replace(raw, entity)
    return safe


def shortened(text: str, length: int = MAX_LABEL) -> str:
    """Return a text that fits."""
    return text if len(text) <= length else text[: length - 1] + "…"


def number(value: float) -> str:
    """Return a number as people read it: four digits, no exponent below a million."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:  # noqa: PLR2004
        return f"{float(f'{value:.4g}'):,.10g}"
    return f"{value:.3g}"


LARGEST = 1e15


def ticks(low: float, high: float, wanted: int = 8) -> list[float]:
    """Return round numbers from `low` to `high`."""
    raw = (high - low) / wanted
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= raw)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _finite_series(series: Series) -> Series:
    dots = tuple(_finite_dot(dot) for dot in series.dots if _is_drawable(dot.x) and _is_drawable(dot.y))
    return Series(series.name, dots, series.is_connected)


def _finite_dot(dot: Dot) -> Dot:
    """Return a point without the ends of intervals that are no numbers."""

    def end(value: float | None) -> float | None:
        return value if value is not None and _is_drawable(value) else None

    return replace(dot, x_low=end(dot.x_low), x_high=end(dot.x_high), y_low=end(dot.y_low), y_high=end(dot.y_high))


def _is_drawable(value: float) -> bool:
    """Tell whether a number can stand on an axis; no measured one is so large, and sums of larger ones overflow."""
    return math.isfinite(value) and abs(value) <= LARGEST


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and _is_drawable(value)]


def _scales(chart: Chart, dots: Sequence[Dot]) -> tuple[_Scale, _Scale]:
    xs = _known(value for dot in dots for value in (dot.x, dot.x_low, dot.x_high))
    ys = _known(value for dot in dots for value in (dot.y, dot.y_low, dot.y_high))
    ys += _known(mark.value for mark in chart.limits if mark.value <= 2 * max(ys))
    x_low, x_high = _range(xs, is_zero_based=chart.is_zero_based and chart.x_ticks is None)
    y_low, y_high = _range(ys, is_zero_based=chart.is_zero_based)
    return _Scale(x_low, x_high, _LEFT, _PLOT_RIGHT), _Scale(y_low, y_high, _PLOT_BOTTOM, _TOP)


def _range(values: Sequence[float], *, is_zero_based: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return (min(low - room, 0.0) if low < 0 else 0.0) if is_zero_based else low - room, high + room


def _draw_axes(drawing: _Drawing, chart: Chart, x_scale: _Scale, y_scale: _Scale) -> None:
    places = chart.x_ticks or tuple((value, number(value)) for value in ticks(x_scale.low, x_scale.high))
    for value, text in places:
        x = x_scale.at(value)
        drawing.line("grid", (x, _TOP), (x, _PLOT_BOTTOM))
        drawing.text("soft", (x, _PLOT_BOTTOM + 16), shortened(text, 18), "middle")
    for value in ticks(y_scale.low, y_scale.high):
        y = y_scale.at(value)
        drawing.line("grid", (_LEFT, y), (_PLOT_RIGHT, y))
        drawing.text("soft", (_LEFT - 6, y + 4), number(value), "end")
    drawing.line("axis", (_LEFT, _PLOT_BOTTOM), (_PLOT_RIGHT, _PLOT_BOTTOM))
    drawing.line("axis", (_LEFT, _TOP), (_LEFT, _PLOT_BOTTOM))
    drawing.text("ink", ((_LEFT + _PLOT_RIGHT) / 2, HEIGHT - 16), chart.x_label, "middle")
    drawing.text("ink", (_LEFT - 60, _TOP - 8), chart.y_label)


def _draw_marks(drawing: _Drawing, chart: Chart, x_scale: _Scale, y_scale: _Scale) -> None:
    for mark in chart.limits:
        if not y_scale.low <= mark.value <= y_scale.high:
            drawing.text("limit-text", (_PLOT_RIGHT - 4, _TOP - 6), shortened(f"{mark.label}: off the chart"), "end")
            continue
        y = y_scale.at(mark.value)
        drawing.line("limit", (_LEFT, y), (_PLOT_RIGHT, y))
        drawing.text("limit-text", (_PLOT_RIGHT - 4, y - 4), shortened(mark.label), "end")
    for place, mark in enumerate(chart.events):
        x = x_scale.at(mark.value)
        drawing.line("mark", (x, _TOP), (x, _PLOT_BOTTOM))
        drawing.text("mark-text", (x + 4, _TOP + 12 + 14 * (place % 3)), shortened(mark.label))


def _draw_series(drawing: _Drawing, place: int, series: Series, scales: tuple[_Scale, _Scale]) -> None:
    x_scale, y_scale = scales
    drawing.parts.append(f'<g class="s{place % SERIES_COUNT}">')
    if series.is_connected and len(series.dots) > 1:
        path = " ".join(f"{x_scale.at(dot.x):.1f},{y_scale.at(dot.y):.1f}" for dot in series.dots)
        drawing.parts.append(f'<polyline class="line" points="{path}"/>')
    for dot in series.dots:
        x, y = x_scale.at(dot.x), y_scale.at(dot.y)
        if dot.y_low is not None and dot.y_high is not None:
            drawing.line("bar", (x, y_scale.at(dot.y_low)), (x, y_scale.at(dot.y_high)))
        if dot.x_low is not None and dot.x_high is not None:
            drawing.line("bar", (x_scale.at(dot.x_low), y), (x_scale.at(dot.x_high), y))
        drawing.parts.append(_symbol(place, x, y, dot.title or dot.label))
        if dot.label:
            drawing.text("soft", (x + 7, y - 6), shortened(dot.label))
    drawing.parts.append("</g>")


def _symbol(place: int, x: float, y: float, title: str) -> str:
    told = f"<title>{escaped(title)}</title>" if title else ""
    match _SHAPES[place % len(_SHAPES)]:
        case "circle":
            return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5">{told}</circle>'
        case "square":
            return f'<rect class="dot" x="{x - 3.2:.1f}" y="{y - 3.2:.1f}" width="6.4" height="6.4">{told}</rect>'
        case "diamond":
            corners = f"{x:.1f},{y - 4.5:.1f} {x + 4.5:.1f},{y:.1f} {x:.1f},{y + 4.5:.1f} {x - 4.5:.1f},{y:.1f}"
        case _:
            corners = f"{x:.1f},{y - 4.5:.1f} {x + 4.2:.1f},{y + 3.5:.1f} {x - 4.2:.1f},{y + 3.5:.1f}"
    return f'<polygon class="dot" points="{corners}">{told}</polygon>'


def _draw_legend(drawing: _Drawing, series: Sequence[Series]) -> None:
    x = _PLOT_RIGHT + 16
    for place, item in enumerate(series[:MAX_LEGEND]):
        y = _TOP + 10 + 16 * place
        drawing.parts.append(f'<g class="s{place % SERIES_COUNT}">{_symbol(place, x, y, item.name)}</g>')
        drawing.text("ink", (x + 10, y + 4), shortened(item.name, 26))
    if len(series) > MAX_LEGEND:
        drawing.text("soft", (x + 10, _TOP + 14 + 16 * MAX_LEGEND), f"and {len(series) - MAX_LEGEND} more")
