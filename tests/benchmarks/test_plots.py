"""Pictures: well-formed, escaped, told in words, with the same numbers as their CSV."""

import csv
import io
import math
import random
import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.benchmarks.history import History, HistoryPoint, history
from service.benchmarks.plots import (
    ParetoX,
    Picture,
    by_load,
    estimate,
    history_picture,
    latency_picture,
    pareto_picture,
)
from service.benchmarks.results import LoadFacts, LoadMode, Result, ResultStatus, WorkloadFacts
from service.benchmarks.svg import Chart, Dot, Mark, Series, escaped, number, render, ticks
from tests.benchmarks.made import result

# ruff: noqa: S311, S314  noise for tests; the XML is our own

NS = "{http://www.w3.org/2000/svg}"
NASTY = "</text><script>alert(1)</script>&\"'\x00\ud800"
START = datetime(2026, 1, 1, tzinfo=UTC)


def sweep(scale: float = 1.0) -> list[Result]:
    """Three repeats of four loads; a heavier load gives more throughput and less for each user."""
    return [
        result(output_tps=scale * 100 * level**0.7 * (1 + repeat / 100), concurrency=level, ttft_ms=50.0 * level)
        for level in (16, 1, 64, 4)
        for repeat in range(3)
    ]


def parsed(picture: Picture) -> tuple[ET.Element, list[dict[str, str]]]:
    return ET.fromstring(picture.svg), list(csv.DictReader(io.StringIO(picture.csv, newline="")))


def series_of(values: list[float], later: int) -> History:
    points = [
        HistoryPoint(f"bmr_{i}", START + timedelta(days=i), value, "0.5.16" if i < later else "0.5.23")
        for i, value in enumerate(values)
    ]
    return history("output_throughput_tps", points)


def test_the_pareto_has_a_point_a_load_with_its_interval() -> None:
    root, rows = parsed(pareto_picture({"base": sweep(), "eagle": sweep(1.5)}))
    assert len(root.findall(f".//{NS}circle")) == 4 + 1
    assert len(root.findall(f".//{NS}polyline")) == 2
    assert [row["load"] for row in rows if row["configuration"] == "base"] == ["C=1", "C=4", "C=16", "C=64"]
    first = rows[0]
    y = [float(first[f"total_throughput_tps_per_gpu{suffix}"]) for suffix in ("_low", "", "_high")]
    assert y[1] == pytest.approx(101 / 4)
    assert y[0] < y[1] < y[2]
    assert first["total_throughput_tps_per_gpu_runs"] == "3"
    assert {row["on_frontier"] for row in rows} == {"true"}


def test_the_frontier_turns_with_the_axis() -> None:
    results = [result(100, ttft_ms=100, concurrency=1), result(90, ttft_ms=200, concurrency=4)]
    _, rows = parsed(pareto_picture({"one": results}, x=ParetoX.TTFT))
    assert [row["on_frontier"] for row in rows] == ["true", "false"]


def test_without_gpus_the_throughput_is_of_the_whole() -> None:
    results = [
        item.model_copy(
            update={
                "rates": item.rates.model_copy(
                    update={"total_throughput_tps_per_gpu": None, "total_throughput_tps": 7.0}
                )
            }
        )
        for item in sweep()
    ]
    _, rows = parsed(pareto_picture({"cpu": results}))
    assert rows[0]["total_throughput_tps"] == "7.0"


def test_latency_against_load_has_its_limits_as_lines() -> None:
    picture = latency_picture({"base": sweep()}, "ttft_p99_ms", limits={"TTFT p99": 2000.0})
    root, rows = parsed(picture)
    assert [(row["concurrency"], float(row["ttft_p99_ms"])) for row in rows] == [
        *(("1", 100.0), ("4", 400.0), ("16", 1600.0), ("64", 6400.0))
    ]
    (line,) = [item for item in root.iter(f"{NS}line") if item.get("class") == "limit"]
    assert line.get("y1") == line.get("y2")
    assert "TTFT p99 2,000" in "".join(root.itertext())


def test_a_limit_beyond_the_chart_is_said() -> None:
    picture = latency_picture({"base": [result(ttft_ms=10)]}, "ttft_p99_ms", limits={"TTFT p99": 20_000.0})
    assert "off the chart" in picture.svg


def test_an_open_loop_is_drawn_over_its_rate() -> None:
    results = [
        result(ttft_ms=100 * rate).model_copy(
            update={"load": LoadFacts(mode=LoadMode.OPEN_POISSON, request_rate_target_rps=rate)}
        )
        for rate in (4.0, 0.5)
    ]
    _, rows = parsed(latency_picture({"base": results}, "ttft_p50_ms"))
    assert [row["request_rate_rps"] for row in rows] == ["0.5", "4.0"]


def test_the_history_shows_changes_and_versions() -> None:
    generator = random.Random(1)
    values = [level * math.exp(generator.gauss(0, 0.01)) for level in [90.0] * 12 + [60.0] * 8]
    told = series_of(values, later=12)
    root, rows = parsed(history_picture(told, title="kimi-k2, chat-1k-1k"))
    text = "".join(root.itertext())
    assert "regressed -3" in text
    assert "At run bmr_12 regressed by -3" in text
    assert "0.5.23" in text
    assert "2026-01-01" in text
    assert [i for i, row in enumerate(rows) if row["change"]] == [12]
    assert rows[12]["change"] == "regressed"
    assert len(root.findall(f".//{NS}circle")) == 20 + 1


def test_pictures_tell_in_words_what_they_show() -> None:
    for picture in (
        pareto_picture({"base": sweep()}),
        latency_picture({"base": sweep()}, "tpot_p50_ms"),
        history_picture(series_of([5.0] * 9, later=4), title="t"),
    ):
        root, _ = parsed(picture)
        assert root.get("role") == "img"
        title, told = root.find(f"{NS}title"), root.find(f"{NS}desc")
        assert title is not None
        assert told is not None
        assert root.get("aria-labelledby") == f"{title.get('id')} {told.get('id')}"
        assert title.text
        assert told.text
        assert "prefers-color-scheme:dark" in picture.svg


def test_nothing_to_draw_is_said() -> None:
    assert "No measured points" in pareto_picture({}).svg
    assert "No measured points" in latency_picture({"a": []}, "ttft_p50_ms").svg
    assert "No measured points" in history_picture(series_of([], later=0), title="t").svg


def test_names_cannot_write_markup_or_formulas() -> None:
    curves = {NASTY: sweep(), "=cmd|' /C calc'!A0": sweep(1.2)}
    told = History("output_throughput_tps", (HistoryPoint(NASTY, START, 5.0, NASTY), HistoryPoint("b", START, 6.0)), ())
    for picture in (
        pareto_picture(curves),
        latency_picture(curves, "ttft_p50_ms", limits={NASTY: 100.0}),
        history_picture(told, title=NASTY),
    ):
        root, _ = parsed(picture)
        assert not list(root.iter(f"{NS}script"))
        assert "alert(1)" in "".join(root.itertext())
    assert "\r\n'=cmd|" in pareto_picture(curves).csv


@given(st.text(st.characters()))
def test_any_text_is_legal_xml_once_escaped(text: str) -> None:
    assert ET.fromstring(f"<a>{escaped(text)}</a>").tag == "a"


NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@example([(0.0, 1.0, 1.66e308), (0.0, 1.0, -1.66e308)])
@example([(1.0, 2.0, math.nan), (2.0, 3.0, math.inf), (math.nan, 1.0, None)])
@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.none() | NUMBERS), max_size=6))
def test_any_numbers_are_drawn_inside_the_picture(values: list[tuple[float, float, float | None]]) -> None:
    dots = tuple(Dot(x, y, y_low=low, y_high=low) for x, y, low in values if not abs(x) > 1e12 and not abs(y) > 1e12)
    chart = Chart("t", "d", "x", "y", (Series("s", dots),), limits=(Mark(1.0, "l"),))
    text = render(chart)
    ET.fromstring(text)
    assert not re.search(r'="-?(nan|inf)', text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234.5678, "1,235"),
        (0.123456, "0.1235"),
        (1e9, "1e+09"),
        (1e-9, "1e-09"),
        (100_000, "100,000"),
        (20.0, "20"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


def test_ticks_are_round() -> None:
    assert ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert ticks(-0.3, 0.31) == pytest.approx([-0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3])
    assert ticks(1_000, 1_010) == [1_000, 1_002, 1_004, 1_006, 1_008, 1_010]


def test_repeats_are_averaged_run_by_run() -> None:
    told = estimate([result(90), result(92), result(94)], "output_throughput_tps")
    assert told is not None
    assert (told.mean, told.n) == (92, 3)
    single = estimate([result(90)], "output_throughput_tps")
    assert single is not None
    assert (single.low, single.high) == (None, None)
    assert estimate([result(90)], "goodput_rps") is None
    assert [load for load, _ in by_load(sweep())] == ["C=1", "C=4", "C=16", "C=64"]


def test_numbers_of_degraded_runs_are_not_drawn() -> None:
    broken = [
        item.model_copy(update={"status": ResultStatus.DEGRADED}) for item in (result(9), result(5, concurrency=2))
    ]
    for picture in (
        pareto_picture({"a": [result(90), *broken]}),
        latency_picture({"a": [result(90), *broken]}, "ttft_p50_ms"),
    ):
        root, (row,) = parsed(picture)
        assert row.get("load", row.get("concurrency")) in {"C=16", "16.0", "16"}
        assert next(value for name, value in row.items() if name.endswith("_runs")) == "1"
        assert "2 degraded or failed results are left out" in (root.findtext(f"{NS}desc") or "")


def test_other_work_at_the_same_load_is_another_curve() -> None:
    short, long = (
        result(tps, ttft_ms=1000 / tps).model_copy(update={"workload": WorkloadFacts(input_tokens_asked=length)})
        for tps, length in ((90, 1024), (30, 8192))
    )
    _, rows = parsed(latency_picture({"a": [short, long]}, "output_throughput_tps"))
    assert [(row["configuration"], float(row["output_throughput_tps"])) for row in rows] == [
        ("a, input_tokens_asked 1024", 90),
        ("a, input_tokens_asked 8192", 30),
    ]
    more = long.model_copy(update={"workload": WorkloadFacts(input_tokens_asked=8192, num_prompts=500)})
    _, rows = parsed(pareto_picture({"a": [long, more]}))
    assert [(row["configuration"], row["load"]) for row in rows] == [("a", "C=16")] * 2
