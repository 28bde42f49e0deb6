"""axe finds no serious fault in any view: light and dark, wide and at 320 px, where nothing is cut off either."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from service.settings import Settings
from tests.api.bench_files import STEADY_90, import_file, lines
from tests.scenarios.conftest import Stage
from tests.web.browsing import Screen, screen_at

pytestmark = pytest.mark.web
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = (
    ("",),
    ("servers", "one"),
    ("servers", "one", "history"),
    ("servers", "broken"),
    ("nodes", "atlas"),
    ("profiles",),
    ("profiles", "one-profile"),
    ("place",),
    ("benchmarks",),
    ("benchmarks", "history", "one-profile"),
)


async def faults(screen: Screen) -> list[str]:
    """Return the serious and critical faults that axe finds in what is shown."""
    await screen.page.evaluate(AXE.read_text())
    told: dict[str, Any] = await screen.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{fault['id']}: {node['html'][:200]} {node['any'][0]['message'] if node['any'] else ''}"
        for fault in told["violations"]
        if fault["impact"] in {"serious", "critical"}
        for node in fault["nodes"]
    ]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (320, "light")])
async def test_no_view_has_a_serious_fault(
    stage: Stage, settings: Settings, browser: Browser, width: int, scheme: str
) -> None:
    await stage.bring_up("one")
    await stage.place("broken", script="oom_graph_capture")
    await stage.post("/servers/broken/launch")
    await stage.until_state("broken", "failed")
    runs = [
        await import_file(stage.api, lines(speeds), "profile=one-profile&benchmark=smoke")
        for speeds in (STEADY_90, (70.0, 70.5, 69.5))
    ]
    views = [*VIEWS, ("benchmarks", "comparison", *(run["id"] for run in runs)), ("benchmarks", "runs", runs[0]["id"])]
    async with screen_at(browser, f"http://127.0.0.1:{settings.port}", width=width, scheme=scheme) as screen:
        for view in views:
            await screen.open(*view)
            await expect(screen.page.locator("h1")).to_be_visible()
            await expect(screen.page.get_by_text("Reading", exact=False)).to_have_count(0, timeout=15_000)
            assert await faults(screen) == [], view
            wider = await screen.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, f"{view} is {wider} px wider than the screen"
        await screen.open("servers", "one")
        await screen.page.get_by_role("button", name="Restart …").click()
        await screen.sees("Preflight passed")
        assert await faults(screen) == []


async def test_a_new_view_is_told_by_its_heading_and_its_title(stage: Stage, screen: Screen) -> None:
    await stage.place("one")
    await screen.open()
    await screen.page.get_by_role("link", name="Profiles").click()
    await expect(screen.page.get_by_role("heading", level=1)).to_be_focused()
    await expect(screen.page).to_have_title("Profiles · Vigil")
    await screen.page.go_back()
    await expect(screen.page).to_have_title("Fleet · Vigil")
    await expect(screen.page.get_by_role("heading", level=1)).to_be_focused()
