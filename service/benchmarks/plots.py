"""The three pictures of benchmarks, each with the data behind it: Pareto, latency against load, history."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from service.benchmarks.comparability import Scalar, comparability_key, key_fields
from service.benchmarks.history import History
from service.benchmarks.metrics import Direction, metric
from service.benchmarks.noise import mean_interval
from service.benchmarks.points import load_label
from service.benchmarks.results import Result, ResultStatus
from service.benchmarks.svg import Chart, Dot, Mark, Series, number, render
from service.clock import to_text


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart as SVG, and the numbers in it as CSV."""

    svg: str
    csv: str


class ParetoX(StrEnum):
    """What throughput is traded against."""

    INTERACTIVITY = "interactivity_tps_user"
    TTFT = "ttft_p50_ms"
    E2E = "e2e_p50_ms"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric over the repeats of one point: mean, and the 95 % interval of the mean from two runs on."""

    mean: float
    low: float | None
    high: float | None
    n: int


def estimate(results: Iterable[Result], metric_name: str) -> Estimate | None:
    """Return a metric over repeats; None when no result has it. Percentiles are averaged over runs, never pooled."""
    read = metric(metric_name).read
    values = [value for result in results if (value := read(result)) is not None]
    if not values:
        return None
    low, high = mean_interval(values) or (None, None)
    return Estimate(sum(values) / len(values), low, high, len(values))


def by_load(results: Iterable[Result]) -> list[tuple[str, list[Result]]]:
    """Return the repeats of each point of load with its name, the lightest first; only those of one key are repeats."""
    ordered = sorted(results, key=lambda r: (r.load.request_rate_target_rps or 0.0, r.load.max_concurrency or 0))
    groups: dict[str, list[Result]] = {}
    for result in ordered:
        groups.setdefault(comparability_key(result), []).append(result)
    return [(load_label(group[0]), group) for group in groups.values()]


def by_work(curves: Mapping[str, Sequence[Result]]) -> dict[str, list[Result]]:
    """Return the sound results by curve; one that holds other work, such as other lengths, becomes one for each."""
    drawn: dict[str, list[Result]] = {}
    for name, results in curves.items():
        sound = [result for result in results if result.status is ResultStatus.OK]
        works: dict[tuple[tuple[str, Scalar], ...], list[Result]] = {}
        for result in sound:
            fields = key_fields(result).items()
            works.setdefault(tuple(item for item in fields if item[0] not in _LOAD_FIELDS), []).append(result)
        shared = set.intersection(*(set(work) for work in works)) if works else set()
        for work, group in works.items():
            told = [f"{field} {_shown(value)}" for field, value in work if (field, value) not in shared]
            drawn[", ".join([name, *told])] = group
        if not works:
            drawn[name] = []
    return drawn


def pareto_picture(curves: Mapping[str, Sequence[Result]], *, x: ParetoX = ParetoX.INTERACTIVITY) -> Picture:
    """Draw throughput against what it costs the user: one curve a configuration, one point a load, with intervals.

    What is degraded or failed is left out, and said. Throughput is per GPU when all results tell their GPUs. `curves`
    maps names to results of any number of loads.
    """
    drawn = by_work(curves)
    y = _throughput_metric(drawn)
    rows: list[list[object]] = []
    series = []
    for name, results in drawn.items():
        points = [(load, estimate(runs, x), estimate(runs, y)) for load, runs in by_load(results)]
        known = [(load, a, b) for load, a, b in points if a is not None and b is not None]
        front = _frontier([(a.mean, b.mean) for _, a, b in known], is_x_higher=_is_higher(x))
        series.append(Series(name, tuple(_dot(a, b, load) for load, a, b in known)))
        rows += [
            [name, load, *_cells(a), *_cells(b), is_best] for (load, a, b), is_best in zip(known, front, strict=True)
        ]
    better = "up and to the right" if _is_higher(x) else "up and to the left"
    chart = Chart(
        title=f"{metric(y).title} against {metric(x).title}",
        description=f"{_told(series)} {_left_out(curves)}Better is {better}. "
        "Bars are 95 % intervals of the mean over repeats.",
        x_label=_axis(x),
        y_label=_axis(y),
        series=tuple(series),
    )
    header = ["configuration", "load", *_headings(x), *_headings(y), "on_frontier"]
    return Picture(render(chart), _csv(header, rows))


def latency_picture(
    curves: Mapping[str, Sequence[Result]], metric_name: str, *, limits: Mapping[str, float] | None = None
) -> Picture:
    """Draw a latency (or another metric) against the load, with limits as lines across.

    The load is the rate asked for where all results have one, else the concurrency; results without it are left out.
    """
    drawn = by_work(curves)
    is_rate = all(r.load.request_rate_target_rps is not None for results in drawn.values() for r in results)
    rows: list[list[object]] = []
    series = []
    for name, results in drawn.items():
        dots = []
        for _, runs in by_load(results):
            load = runs[0].load.request_rate_target_rps if is_rate else runs[0].load.max_concurrency
            value = estimate(runs, metric_name)
            if load is None or value is None:
                continue
            dots.append(_dot(Estimate(float(load), None, None, value.n), value, ""))
            rows.append([name, load, *_cells(value)])
        series.append(Series(name, tuple(dots)))
    load_name = "request_rate_rps" if is_rate else "concurrency"
    chart = Chart(
        title=f"{metric(metric_name).title} against load",
        description=f"{_told(series)} {_left_out(curves)}{_told_limits(limits or {})}"
        "Bars are 95 % intervals of the mean over repeats.",
        x_label="requests per second" if is_rate else "requests in flight",
        y_label=_axis(metric_name),
        series=tuple(series),
        limits=tuple(Mark(value, f"{name} {number(value)}") for name, value in (limits or {}).items()),
    )
    return Picture(render(chart), _csv(["configuration", load_name, *_headings(metric_name)], rows))


def history_picture(told: History, *, title: str, limits: Mapping[str, float] | None = None) -> Picture:
    """Draw a metric over runs, oldest first: dates below, versions where they change, change points as lines."""
    points = told.points
    changes = {change.index: change for change in told.changes}
    dots = tuple(
        Dot(float(i), point.value, title=f"{to_text(point.at)} {point.run_id} {point.version}: {number(point.value)}")
        for i, point in enumerate(points)
    )
    events = [
        Mark(change.index - 0.5, f"{change.kind} {100 * (change.ratio - 1):+.1f} %") for change in changes.values()
    ]
    versions = [
        Mark(float(i), after.version)
        for i, (before, after) in enumerate(pairwise(points), start=1)
        if after.version != before.version
    ]
    words = [f"At run {c.run_id} {c.kind} by {100 * (c.ratio - 1):+.1f} %." for c in told.changes]
    reason = told.reason or ("" if words else "No change is told.")
    chart = Chart(
        title=title,
        description=f"{metric(told.metric).title} over {len(points)} runs. {' '.join(words)} {reason}".strip(),
        x_label="runs, oldest first",
        y_label=_axis(told.metric),
        series=(Series(told.metric, dots),),
        limits=tuple(Mark(value, f"{name} {number(value)}") for name, value in (limits or {}).items()),
        events=tuple(events + versions[-_MAX_VERSIONS:]),
        x_ticks=_date_ticks(told),
        is_zero_based=False,
    )
    header = ["run", "at", "version", told.metric, "change", "change_ratio", "change_p"]
    rows = [
        [
            p.run_id,
            to_text(p.at),
            p.version,
            p.value,
            *((c.kind, c.ratio, c.p) if (c := changes.get(i)) else ("", "", "")),
        ]
        for i, p in enumerate(points)
    ]
    return Picture(render(chart), _csv(header, rows))


_LOAD_FIELDS = frozenset({"load_mode", "max_concurrency", "request_rate_target_rps", "burstiness", "num_prompts"})
"""The fields of the key in which the points of one curve differ; the number of prompts follows the load."""
_MAX_VERSIONS = 12
_DATE_TICKS = 6


def _throughput_metric(curves: Mapping[str, Sequence[Result]]) -> str:
    per_gpu = metric("total_throughput_tps_per_gpu").read
    is_known = all(per_gpu(result) is not None for results in curves.values() for result in results)
    return "total_throughput_tps_per_gpu" if is_known else "total_throughput_tps"


def _shown(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) else "unknown" if value is None else str(value)


def _is_higher(name: str) -> bool:
    return metric(name).direction is Direction.HIGHER


def _frontier(points: Sequence[tuple[float, float]], *, is_x_higher: bool) -> list[bool]:
    """Tell for each point whether no other is at least as good in both and better in one; more y is better."""
    turned = [(x if is_x_higher else -x, y) for x, y in points]
    return [
        not any(other != point and other[0] >= point[0] and other[1] >= point[1] for other in turned)
        for point in turned
    ]


def _dot(x: Estimate, y: Estimate, label: str) -> Dot:
    told = f"{label or number(x.mean)}: {number(x.mean)}, {number(y.mean)} ({y.n} runs)"
    return Dot(x.mean, y.mean, x.low, x.high, y.low, y.high, label=label, title=told)


def _axis(name: str) -> str:
    return f"{metric(name).title} ({metric(name).unit})"


def _told(series: Sequence[Series]) -> str:
    count = sum(len(item.dots) for item in series)
    names = ", ".join(item.name for item in series[:8])
    return f"{count} points of {len(series)} configurations: {names}." if series else "No configuration."


def _left_out(curves: Mapping[str, Sequence[Result]]) -> str:
    count = sum(result.status is not ResultStatus.OK for results in curves.values() for result in results)
    return f"{count} degraded or failed results are left out. " if count else ""


def _told_limits(limits: Mapping[str, float]) -> str:
    return "".join(f"Limit {name}: {number(value)}. " for name, value in limits.items())


def _date_ticks(told: History) -> tuple[tuple[float, str], ...]:
    count = len(told.points)
    step = max((count - 1) // (_DATE_TICKS - 1), 1)
    return tuple((float(i), told.points[i].at.strftime("%Y-%m-%d")) for i in range(0, count, step))


def _headings(name: str) -> list[str]:
    return [name, f"{name}_low", f"{name}_high", f"{name}_runs"]


def _cells(value: Estimate) -> list[object]:
    return [value.mean, value.low, value.high, value.n]


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return RFC 4180 text. A text that a spreadsheet would take for a formula gets an apostrophe in front."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return f"'{value}"
    return "" if value is None else value
