"""An operator launches, restarts and stops: by mouse and by keyboard, after seeing what the checks say."""

import re

import pytest
from playwright.async_api import expect

from tests.scenarios.conftest import Stage
from tests.web.browsing import Screen

pytestmark = pytest.mark.web


async def test_a_launch_and_a_restart_by_mouse(stage: Stage, screen: Screen) -> None:
    await stage.place("one")
    await screen.open()
    page = screen.page
    await page.get_by_role("link", name="one", exact=True).click()
    await expect(page.get_by_role("heading", name="one")).to_be_visible()
    await page.get_by_role("button", name="Launch …").click()
    dialog = page.get_by_role("dialog", name="Launch one")
    await expect(dialog.get_by_text("Preflight passed")).to_be_visible()
    await dialog.get_by_text("The same with curl").click()
    curl = await dialog.locator("pre").inner_text()
    assert "-X POST" in curl
    assert curl.endswith(f"'{screen.url}/api/v1/servers/one/launch'")
    assert re.search(r"Idempotency-Key: page-[0-9a-f]{24}", curl)
    await dialog.get_by_role("button", name="Launch one").click()
    await expect(dialog).to_be_hidden()
    await screen.sees("Ready: it serves")

    await page.get_by_role("button", name="Restart …").click()
    dialog = page.get_by_role("dialog", name="Restart one")
    await expect(dialog.get_by_text("This interrupts traffic")).to_be_visible()
    restart = dialog.get_by_role("button", name="Restart one")
    await expect(dialog.get_by_text("Preflight passed")).to_be_visible()
    await expect(restart).to_be_disabled()
    await dialog.get_by_label("I know, and want it").check()
    await restart.click()
    await screen.sees("Launch 2: where the time goes")
    await screen.sees("Ready: it serves")
    assert (await stage.get("/servers/one"))["launch"]["number"] == 2


async def test_a_launch_a_restart_and_a_stop_by_keyboard_alone(stage: Stage, screen: Screen) -> None:
    await stage.place("one")
    await screen.open()
    await screen.sees("one-profile v1 on atlas")
    await screen.tab_to("one")
    await screen.press("Enter")
    await expect(screen.page.get_by_role("heading", name="one")).to_be_focused()
    await screen.tab_to("Launch …")
    await screen.press("Enter")
    await screen.sees("Preflight passed")
    await screen.tab_to("Launch one")
    await screen.press("Enter")
    await screen.sees("Ready: it serves")

    await screen.tab_to("Restart …")
    await screen.press("Enter")
    await screen.sees("This interrupts traffic")
    await screen.press("Escape")
    await expect(screen.page.get_by_role("dialog")).to_have_count(0)
    await expect(screen.page.get_by_role("button", name="Restart …")).to_be_focused()
    await screen.press("Enter")
    await screen.sees("Preflight passed")
    await screen.page.get_by_label("I know, and want it").focus()
    await screen.press("Space")
    await screen.tab_to("Restart one")
    await screen.press("Enter")
    await screen.sees("Launch 2: where the time goes")
    await screen.sees("Ready: it serves")

    await screen.tab_to("Stop …")
    await screen.press("Enter")
    await screen.page.get_by_label("I know, and want it").focus()
    await screen.press("Space")
    await screen.tab_to("Stop one")
    await screen.press("Enter")
    await stage.until_state("one", "stopped")
    await expect(screen.page.locator(".page-title .state-stopped")).to_be_visible()
