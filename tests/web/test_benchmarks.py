"""Benchmarks in the page: a run started and watched, a regression told, two runs compared, a history drawn."""

import pytest
from playwright.async_api import expect

from tests.api.bench_files import STEADY_90, import_file, lines, steady
from tests.scenarios.conftest import Stage
from tests.web.browsing import PATIENCE_MS, Screen

pytestmark = pytest.mark.web
SMALL = {
    "dataset": {"kind": "random_ids", "input_tokens": 16, "output_tokens": 8},
    "load": {"kind": "closed", "concurrency": [1, 2]},
    "num_prompts": 6,
}


async def test_a_run_is_started_and_watched_to_its_end(stage: Stage, screen: Screen) -> None:
    await stage.bring_up("one")
    await stage.post("/benchmarks", {"name": "small", "workload": SMALL}, expect=201)
    await screen.open("benchmarks")
    page = screen.page
    await screen.sees("No run yet")
    await page.get_by_role("combobox", name="Server").select_option("one")
    await page.get_by_role("combobox", name="Benchmark").select_option("small")
    await page.get_by_label("Repeats").fill("2")
    await screen.sees("concurrency 1, concurrency 2; 4 times the client is run")
    await page.get_by_role("button", name="Start", exact=True).click()
    await expect(page.get_by_role("heading", name="Run of small")).to_be_visible()
    await screen.sees("of 4 steps")
    await expect(page.get_by_text("succeeded")).to_be_visible(timeout=60_000)
    table = page.get_by_role("region", name="By load")
    await expect(table.get_by_role("row").filter(has_text="Output tokens/s")).to_be_visible()
    await expect(table.get_by_role("columnheader").filter(has_text="C=2")).to_be_visible()


async def test_b_the_benchmark_after_it_regressed_with_the_accept_length_beside_it(
    stage: Stage, screen: Screen
) -> None:
    await stage.place("one")
    base = await import_file(stage.api, lines(STEADY_90, accept_length=3.1), "profile=one-profile&benchmark=smoke")
    status, _ = await stage.api.call("PUT", "/profiles/one-profile/baseline", {"run": base["id"]})
    assert status == 200
    slow = await import_file(
        stage.api, lines(steady(24.8, seed=2), accept_length=1.0), "profile=one-profile&benchmark=smoke"
    )
    await screen.open("benchmarks")
    await expect(screen.page.get_by_role("row").filter(has_text="regressed")).to_have_count(1)
    await screen.open("benchmarks", "runs", slow["id"])
    note = screen.page.locator(".note-failure")
    await expect(note).to_contain_text("Against the baseline: regressed")
    await expect(note).to_contain_text("against 90")
    await expect(note).to_contain_text("accept length 1.00 against 3.10")
    await note.get_by_role("link", name="The whole comparison").click()
    await screen.sees("The candidate is: regressed")
    row = screen.page.get_by_role("row").filter(has_text="Output tokens/s (decides)")
    await expect(row).to_contain_text("72")
    await expect(row.locator(".interval-bar")).to_be_attached()
    pictures = screen.page.locator(".picture svg")
    await expect(pictures).to_have_count(2, timeout=PATIENCE_MS)
    await expect(pictures.first.locator("desc")).to_contain_text("baseline")


async def test_two_runs_are_chosen_and_compared_and_the_history_shows_where_it_changed(
    stage: Stage, screen: Screen
) -> None:
    await stage.place("one")
    for turn in range(10):
        mean = 90.0 if turn < 5 else 70.0
        await import_file(
            stage.api,
            lines(steady(mean, seed=turn, repeats=3)),
            "profile=one-profile&benchmark=smoke&engine_version=0.5.23",
        )
    await screen.open("benchmarks")
    boxes = screen.page.get_by_role("checkbox")
    await expect(boxes).to_have_count(10)
    await boxes.first.check()
    await boxes.last.check()
    await screen.page.get_by_role("button", name="Compare the two chosen").click()
    await screen.sees("The candidate is: regressed")
    await screen.open("benchmarks", "history", "one-profile")
    await screen.sees("Changes for good")
    await expect(screen.page.locator("#changes + ul li")).to_have_count(1)
    await expect(screen.page.locator(".picture svg")).to_have_count(1)
    await stage.place("two")
    await screen.open("benchmarks", "history", "two-profile")
    await screen.sees("No run tells this metric yet")


async def test_another_metric_is_shown_of_the_series_that_was_chosen(stage: Stage, screen: Screen) -> None:
    """It was shown of the newest run's."""
    await stage.place("one")
    for load in (3, 7):
        content = lines(STEADY_90, concurrency=load)
        await import_file(stage.api, content, "profile=one-profile&benchmark=smoke")
    await screen.open("benchmarks", "history", "one-profile")
    await screen.page.get_by_role("link", name="smoke at C=3").click()
    await screen.sees("smoke at C=3, ")
    await screen.page.get_by_label("Metric").select_option("ttft_p99_ms")
    await expect(screen.page.get_by_role("link", name="smoke at C=7")).to_be_visible()
    await screen.sees("smoke at C=3, ")
