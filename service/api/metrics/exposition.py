"""Writes Prometheus' text format, version 0.0.4.

Not by Prometheus' own library, which takes 10 µs for a series: a fleet of a thousand servers has twenty thousand, and
every scrape would take a quarter of a second of CPU from the event loop. A series here costs one microsecond; the tests
read the page with that library.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from service.api.metrics.catalog import Metric
from service.api.metrics.tallies import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_ESCAPED_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})


@dataclass(frozen=True, slots=True)
class Labels:
    """The names and values of labels as they are written, made once for all series that share them."""

    text: str = ""

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[str]) -> "Labels":
        """Return labels; as many values as names."""
        pairs = zip(names, values, strict=True)
        return cls(",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in pairs))

    def plus(self, name: str, value: str) -> "Labels":
        """Return these labels and one more behind them."""
        return Labels(f'{self.text},{name}="{value.translate(_ESCAPED)}"')


Values = TypeVar("Values", bound=tuple[str, ...])
Series = Iterable[tuple[Labels, float | None]]
NO_LABELS = Labels()


def family(metric: Metric, series: Series) -> list[str]:
    """Return the lines of one metric; a series without a value is left out."""
    name = metric.name
    lines = _head(metric)
    lines += [
        f"{name}{{{labels.text}}} {value!r}" if labels.text else f"{name} {value!r}"
        for labels, value in series
        if value is not None
    ]
    return lines


def labelled(metric: Metric, series: Mapping[Values, float]) -> list[str]:
    """Return the lines of one metric whose series are known by the values of their labels."""
    return family(metric, ((Labels.of(metric.labels, values), float(n)) for values, n in series.items()))


def histograms(metric: Metric, series: Mapping[Values, Histogram]) -> list[str]:
    """Return the lines of a histogram: buckets, sum and count of each series."""
    lines = _head(metric)
    for values, histogram in series.items():
        text = Labels.of(metric.labels, values).text
        buckets = histogram.cumulative()
        lines += [f'{metric.name}_bucket{{{text},le="{end}"}} {float(count)!r}' for end, count in buckets]
        lines.append(f"{metric.name}_sum{{{text}}} {histogram.total_s!r}")
        lines.append(f"{metric.name}_count{{{text}}} {float(buckets[-1][1])!r}")
    return lines


def _head(metric: Metric) -> list[str]:
    return [f"# HELP {metric.name} {metric.text.translate(_ESCAPED_HELP)}", f"# TYPE {metric.name} {metric.kind}"]
