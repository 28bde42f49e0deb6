"""What a view says stays true while the world goes on beside it, and nothing that was written is lost."""

import asyncio
import json
from pathlib import Path

import pytest
from playwright.async_api import Route, expect

from tests.scenarios.conftest import Stage
from tests.web.browsing import Screen

pytestmark = pytest.mark.web


@pytest.fixture
def unhurried(tmp_path: Path) -> str:
    """Give the script of a start that takes some seconds."""
    path = tmp_path / "unhurried.json"
    path.write_text(json.dumps({"time_scale": 1.0}))
    return str(path)


async def test_what_comes_to_interrupt_traffic_is_confirmed_first(stage: Stage, screen: Screen, unhurried: str) -> None:
    """A dialog that was opened during the start had its confirmation ticked by nobody once the server was ready."""
    await stage.place("one", script=unhurried)
    await stage.post("/servers/one/launch")
    await screen.open("servers", "one")
    await screen.page.get_by_role("button", name="Stop …").click()
    dialog = screen.page.get_by_role("dialog", name="Stop one")
    stop = dialog.get_by_role("button", name="Stop one")
    await expect(stop).to_be_enabled()
    await expect(dialog.get_by_text("This interrupts traffic")).to_be_visible(timeout=30_000)
    await expect(stop).to_be_disabled()
    await dialog.get_by_label("I know, and want it").check()
    await expect(stop).to_be_enabled()


async def test_the_page_of_a_launch_goes_on_with_it(stage: Stage, screen: Screen, unhurried: str) -> None:
    await stage.place("one", script=unhurried)
    await stage.post("/servers/one/launch")
    await screen.open("launches", (await stage.get("/servers/one"))["launch"]["id"])
    await screen.sees("Launch 1: where the time goes")
    await screen.sees("It became ready at")


async def test_a_launch_that_ended_has_no_phases_to_come(stage: Stage, screen: Screen, unhurried: str) -> None:
    """They were those of the launch under way."""
    await stage.bring_up("one", script=unhurried)
    await stage.post("/servers/one/stop")
    await stage.until_state("one", "stopped")
    await stage.post("/servers/one/launch")
    await stage.watch(lambda server: server["launch"]["phase"] == "loading_weights")
    ended = (await stage.get("/servers/one"))["launch"]["id"]
    await stage.post("/servers/one/stop")
    await stage.until_state("one", "stopped")
    await stage.post("/servers/one/launch")
    await stage.watch(lambda server: server["eta"])
    await screen.open("launches", ended)
    await screen.sees("Launch 2: where the time goes")
    await expect(screen.page.locator(".phase").first).to_be_visible()
    await asyncio.sleep(0.5)
    assert await screen.page.locator(".phase-comes").count() == 0
    assert (await stage.get("/servers/one"))["eta"], "the start was over before the look"


async def test_a_form_keeps_what_is_empty_on_purpose_and_what_stands_there(stage: Stage, screen: Screen) -> None:
    """An empty variable was left out, and a name with a space after it put `true` in the place of a value."""
    arguments = {"mem-fraction-static": 0.85, "served-model-name": ""}
    variables = {"VIGIL_SIM_SCRIPT": "fast", "NCCL_SOCKET_IFNAME": ""}
    recipe = {**stage.recipe(), "server_args": arguments, "env": variables}
    await stage.post("/profiles", {"name": "kept", "recipe": recipe}, expect=201)
    page = screen.page
    await screen.open("profiles", "kept")
    added = page.get_by_label("Server args: name of a new one")
    for name in ("mem-fraction-static ", "constructor"):
        await added.fill(name)
        await screen.press("Enter")
    await page.get_by_label("Hang after s").fill("60")
    await page.get_by_role("button", name="Write the next version").click()
    await screen.sees("Version 2.")
    written = (await stage.get("/profiles/kept"))["recipe"]
    assert written["server_args"] == {**arguments, "constructor": True}
    assert written["env"] == variables


async def test_an_action_without_an_answer_is_not_said_to_be_tried_again(stage: Stage, screen: Screen) -> None:
    await stage.bring_up("one")

    async def lost(route: Route) -> None:
        await route.abort()

    await screen.page.route("**/servers/one/stop", lost)
    await screen.open("servers", "one")
    await screen.page.get_by_role("button", name="Stop …").click()
    dialog = screen.page.get_by_role("dialog", name="Stop one")
    await dialog.get_by_label("I know, and want it").check()
    await dialog.get_by_role("button", name="Stop one").click()
    await expect(dialog.get_by_text("Vigil does not answer.")).to_be_visible()
    await expect(dialog.get_by_text("by itself")).to_have_count(0)
    await expect(dialog.get_by_text("Do it again")).to_be_visible()


async def test_a_log_that_could_not_be_read_is_read_later(stage: Stage, screen: Screen) -> None:
    await stage.bring_up("one")
    are_lost = True

    async def lost(route: Route) -> None:
        await (route.abort() if are_lost else route.continue_())

    await screen.page.route("**/log?**", lost)
    await screen.open("servers", "one")
    await screen.sees("The log cannot be read now")
    are_lost = False
    await screen.sees("lines, live")


async def test_a_run_is_offered_with_no_more_repeats_than_the_service_takes(stage: Stage, screen: Screen) -> None:
    most = (await stage.api.http.get("/openapi.json")).json()["components"]["schemas"]["BenchmarkRunCreate"]
    await screen.open("benchmarks")
    wanted = f"{most['properties']['repeats']['maximum']:.0f}"
    await expect(screen.page.get_by_label("Repeats")).to_have_attribute("max", wanted)


async def test_what_was_overridden_for_one_launch_is_not_for_another(stage: Stage, screen: Screen) -> None:
    """The tick that somebody set for the failed check of one profile stood at that of the next."""
    for name in ("first", "second"):
        recipe = {**stage.recipe(), "model_path": f"/nowhere/{name}"}
        await stage.post("/profiles", {"name": name, "recipe": recipe}, expect=201)
    page = screen.page
    await screen.open("place", "first")
    await page.get_by_label("Name of the server").fill("mine")
    await page.get_by_label("Node").select_option("atlas")
    override = page.get_by_label("Launch although model_path fails")
    await page.get_by_role("button", name="Check before the launch").click()
    await override.check()
    await page.get_by_label("Profile").select_option("second")
    await page.get_by_role("button", name="Check before the launch").click()
    await screen.sees("/nowhere/second")
    await expect(override).not_to_be_checked()


async def test_a_server_that_could_not_be_read_is_read_again(stage: Stage, screen: Screen) -> None:
    """An answer of 502 to what an event had asked for counted as one: the old row stayed for half a minute."""
    await stage.place("one")
    is_broken = True

    async def broken(route: Route) -> None:
        await (route.fulfill(status=502, body="bad gateway") if is_broken else route.continue_())

    await screen.page.route("**/api/v1/servers/sv_*", broken)
    await screen.open()
    await expect(screen.page.locator(".link-state")).to_have_text("live")
    await asyncio.sleep(1.5)  # all is read once more when events come
    await stage.post("/servers/one/launch")
    await stage.until_state("one", "ready")
    await screen.sees("The answer was 502")
    is_broken = False
    await expect(screen.page.locator(".servers .state-ready")).to_be_visible(timeout=8_000)


async def test_a_name_that_was_typed_and_not_added_is_not_lost(stage: Stage, screen: Screen) -> None:
    await stage.post("/profiles", {"name": "kept", "recipe": stage.recipe()}, expect=201)
    page = screen.page
    await screen.open("profiles", "kept")
    typed = page.get_by_label("Server args: name of a new one")
    await typed.fill("disable-cuda-graph")
    write = page.get_by_role("button", name="Write the next version")
    await write.click()
    await expect(typed).to_be_focused()
    assert "Add" in await typed.evaluate("input => input.validationMessage")
    assert (await stage.get("/profiles/kept"))["version"] == 1
    await page.locator("li").filter(has=typed).get_by_role("button", name="Add").click()
    await write.click()
    await screen.sees("Version 2.")
    assert (await stage.get("/profiles/kept"))["recipe"]["server_args"]["disable-cuda-graph"] is True
