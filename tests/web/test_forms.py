"""Writing a profile in a form that the schema makes, and placing a server of it."""

import pytest
from playwright.async_api import expect

from tests.scenarios.conftest import Stage
from tests.web.browsing import Screen

pytestmark = pytest.mark.web


async def test_a_profile_is_written_in_the_form_changed_and_placed(stage: Stage, screen: Screen) -> None:
    recipe = stage.recipe()
    page = screen.page
    await screen.open("profiles", "+")
    await page.get_by_label("Name", exact=True).fill("tiny")
    await page.get_by_label("Python").fill(str(recipe["python"]))
    await page.get_by_label("Model path").fill(str(recipe["model_path"]))
    await page.get_by_label("Gpu count").fill("1")
    await page.get_by_label("Env: name of a new one", exact=True).fill("VIGIL_SIM_SCRIPT")
    await screen.press("Enter")
    await page.get_by_label("Env: VIGIL_SIM_SCRIPT", exact=True).fill("fast")
    await page.get_by_label("Env: name of a new one", exact=True).fill("HF_TOKEN")
    await screen.press("Enter")
    await page.get_by_label("Env: HF_TOKEN", exact=True).fill("x")
    await page.get_by_role("button", name="Write the profile").click()
    await screen.sees("HF_TOKEN looks like a secret")
    await page.get_by_role("button", name="Remove HF_TOKEN").click()
    await page.get_by_role("button", name="Write the profile").click()
    await expect(page.get_by_role("heading", name="tiny")).to_be_visible()
    await screen.sees("Version 1.")

    await page.get_by_label("Server args: name of a new one").fill("mem-fraction-static")
    await screen.press("Enter")
    await page.get_by_label("Server args: mem-fraction-static").fill("0.85")
    await page.get_by_label("On crash").select_option("restart")
    await page.get_by_label("Hang after s").fill("60")
    await page.get_by_role("button", name="Write the next version").click()
    await screen.sees("Version 2.")
    written = (await stage.get("/profiles/tiny"))["recipe"]
    assert written["server_args"] == {"mem-fraction-static": 0.85}
    assert (written["on_crash"], written["limits"]["hang_after_s"]) == ("restart", 60)
    assert written["env"] == {"VIGIL_SIM_SCRIPT": "fast"}

    await page.get_by_role("link", name="Place a server of it").click()
    await page.get_by_label("Name of the server").fill("mine")
    await page.get_by_label("Node").select_option("atlas")
    await page.get_by_role("checkbox", name="3").check()
    await page.get_by_role("button", name="Check before the launch").click()
    await screen.sees("Preflight passed")
    await page.get_by_role("button", name="Place and launch mine").click()
    await expect(page.get_by_role("heading", name="mine")).to_be_visible()
    await screen.sees("Ready: it serves")
    assert [gpu["index"] for gpu in (await stage.get("/servers/mine"))["launch"]["gpus"]] == [3]


async def test_the_log_is_followed_searched_and_let_go(stage: Stage, screen: Screen) -> None:
    await stage.bring_up("one")
    page = screen.page
    await screen.open("servers", "one")
    lines = page.get_by_role("region", name="Lines of the log")
    await expect(page.get_by_label("Follow the end")).to_be_checked()
    await expect(lines).to_contain_text("/health")
    await page.get_by_label("Find in the log").fill("FIRED UP")
    await screen.sees("1 lines")
    await screen.press("Enter")
    await screen.sees("1 of 1")
    await expect(page.locator(".log-marked")).to_contain_text("fired up and ready to roll")
    await expect(page.get_by_label("Follow the end")).not_to_be_checked()
    await page.get_by_label("Follow the end").check()
    at_end = "box => box.scrollHeight - box.scrollTop - box.clientHeight < 3"
    assert await lines.evaluate(at_end)
    await stage.post("/servers/one/restart")
    await screen.sees("Launch 2: where the time goes")
    await expect(lines).to_contain_text("fired up and ready to roll")
    assert await lines.evaluate(at_end)
