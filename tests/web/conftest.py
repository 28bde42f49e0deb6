"""A tab of a real Chromium at a real service with the embedded fleet."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright

from service.settings import Access, Settings
from service.simulator.fleet import EmbeddedFleet
from tests.contract.vigil import free_port
from tests.scenarios.conftest import SPECS, Stage
from tests.web.browsing import BUILT, CHROMIUM, Screen, screen_at, serving


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Give settings that look often, on a port of their own."""
    return Settings(
        access=Access.OPEN,
        state_dir=tmp_path / "state",
        port=free_port(),
        connect_deadline_s=5,
        retry_max_s=0.5,
        health_interval_s=0.2,
    )


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[EmbeddedFleet]:
    """Give the nodes of the stories."""
    async with EmbeddedFleet(tmp_path / "fleet", SPECS) as fleet:
        yield fleet


@pytest.fixture
async def stage(fleet: EmbeddedFleet, settings: Settings) -> AsyncIterator[Stage]:
    """Give a service that has taken the node in."""
    async with serving(settings) as api:
        stage = Stage(api, fleet)
        await stage.take_in(stage.atlas)
        yield stage


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Give a browser; the tests are skipped by nobody: without Chromium or a built page they fail and say so."""
    assert CHROMIUM, "these tests need Chromium: apt-get install chromium"
    assert BUILT.exists(), "these tests need the built page: make web"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
async def screen(settings: Settings, browser: Browser) -> AsyncIterator[Screen]:
    """Give a tab at the service's address."""
    async with screen_at(browser, f"http://127.0.0.1:{settings.port}") as screen:
        yield screen
