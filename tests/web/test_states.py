"""What the page says when there is nothing, when nobody answers, when the way is slow, and when one may not."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect
from pydantic import SecretStr

from service.settings import Access, Settings
from service.simulator.fleet import EmbeddedFleet
from tests.contract.vigil import free_port
from tests.scenarios.conftest import Stage
from tests.web.browsing import Screen, screen_at, serving

pytestmark = pytest.mark.web


async def test_a_restart_of_the_service_is_told_and_survived(
    fleet: EmbeddedFleet, settings: Settings, screen: Screen
) -> None:
    async with serving(settings) as api:
        stage = Stage(api, fleet)
        await stage.take_in(stage.atlas)
        await stage.bring_up("one")
        await screen.open("servers", "one")
        await screen.sees("Ready: it serves")
        await expect(screen.page.locator(".link-state")).to_have_text("live")
    await screen.sees("No word from Vigil: this may be old")
    await expect(screen.page.locator(".link-state")).to_have_text("silent")
    await screen.sees("Ready: it serves")  # what was known stays
    async with serving(settings) as api:
        await expect(screen.page.get_by_text("No word from Vigil")).to_have_count(0, timeout=15_000)
        await expect(screen.page.locator(".link-state")).to_have_text("live")
        stage = Stage(api, fleet)
        await stage.post("/servers/one/stop")
        await expect(screen.page.locator(".page-title .state-stopped")).to_be_visible()


async def test_events_come_without_asking_for_everything_again(stage: Stage, screen: Screen) -> None:
    await stage.place("one")
    is_list = re.compile(r"/api/v1/servers\?limit")
    async with screen.page.expect_response(is_list):
        await screen.open()
    async with screen.page.expect_response(is_list):  # once more after the stream is open, for what came in between
        await expect(screen.page.locator(".link-state")).to_have_text("live")
    asked: list[str] = []
    screen.page.on("request", lambda request: asked.append(request.url.removeprefix(screen.url)))
    await stage.post("/servers/one/launch")
    await expect(screen.page.locator(".servers .state-ready")).to_be_visible()
    whole_lists = [url for url in asked if url.startswith("/api/v1/servers?limit")]
    assert len(whole_lists) <= 1, asked
    assert any(url.startswith("/api/v1/servers/sv_") for url in asked)


async def test_an_empty_fleet_says_how_to_begin(settings: Settings, screen: Screen) -> None:
    async with serving(settings):
        await screen.open()
        await screen.sees("No server yet")
        await screen.sees("First take a node in")
        await screen.open("profiles")
        await screen.sees("No profile yet")
        await screen.open("servers", "nobody")
        await screen.sees("There is no server nobody")
        await screen.open("nowhere")
        await screen.sees("There is no such view")


async def test_on_a_slow_network_the_page_says_that_it_reads_and_gets_there(stage: Stage, screen: Screen) -> None:
    await stage.place("one")

    async def slowly(route: Route) -> None:
        await asyncio.sleep(1.5)
        await route.continue_()

    await screen.page.route("**/api/v1/**", slowly)
    await screen.open()
    await screen.sees("Reading the fleet")
    await screen.sees("one-profile v1 on atlas")
    await screen.open("servers", "one")
    await screen.page.get_by_role("button", name="Launch …").click()
    await screen.sees("Reading what its launch would meet")
    await screen.sees("Preflight passed")
    await screen.page.get_by_role("button", name="Launch one").click()
    await screen.sees("Launch 1: where the time goes")
    await screen.sees("from the request to ready")


async def test_a_service_that_cannot_be_read_is_told_with_a_way_to_try_again(stage: Stage, screen: Screen) -> None:
    await stage.place("one")
    is_broken = True

    async def broken(route: Route) -> None:
        await (route.fulfill(status=502, body="bad gateway") if is_broken else route.continue_())

    await screen.page.route("**/api/v1/**", broken)
    await screen.open()
    await screen.sees("The answer was 502")
    is_broken = False
    await screen.page.get_by_role("button", name="Try again").click()
    await screen.sees("one-profile v1 on atlas")


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[tuple[Settings, dict[str, str]]]:
    """Give a service that wants tokens, with one server on a node that is not heard, and a token of each role."""
    admin = "vgl_" + "a" * 43
    settings = Settings(
        access=Access.TOKEN, state_dir=tmp_path / "state", port=free_port(), admin_token=SecretStr(admin)
    )
    async with serving(settings) as api:
        api.http.headers["Authorization"] = f"Bearer {admin}"
        await api.add_node()
        await api.add_server()
        tokens = {}
        for role in ("viewer", "operator"):
            status, made = await api.call("POST", "/tokens", {"name": role, "role": role})
            assert status == 201, made
            tokens[role] = made["token"]
        yield settings, tokens


async def test_a_token_is_asked_for_kept_in_the_tab_only_and_a_viewer_may_only_look(
    guarded: tuple[Settings, dict[str, str]], browser: Browser
) -> None:
    settings, tokens = guarded
    async with screen_at(browser, f"http://127.0.0.1:{settings.port}") as screen:
        page = screen.page
        urls: list[str] = []
        page.on("request", lambda request: urls.append(request.url))
        await screen.open("servers", "one")
        await screen.sees("A token, please")
        await page.get_by_label("Token").fill("vgl_" + "x" * 43)
        await screen.press("Enter")
        await screen.sees("The service refused this token")
        await page.get_by_label("Token").fill(tokens["viewer"])
        await page.get_by_role("button", name="Enter").click()
        await expect(page.get_by_role("heading", name="one")).to_be_visible()
        await screen.sees("token:viewer, viewer")
        await screen.sees("Your token may only look")
        await expect(page.get_by_role("button", name="Launch …")).to_be_disabled()
        await page.reload()
        await expect(page.get_by_role("heading", name="one")).to_be_visible()
        kept = await page.evaluate("[sessionStorage['vigil.token'], localStorage.length, document.cookie]")
        assert kept == [tokens["viewer"], 0, ""]
        assert not [url for url in urls if "vgl_" in url]
        await page.get_by_role("button", name="Forget token").click()
        await screen.sees("A token, please")


async def test_the_curl_line_names_the_token_and_does_not_show_it(
    guarded: tuple[Settings, dict[str, str]], browser: Browser
) -> None:
    settings, tokens = guarded
    async with screen_at(browser, f"http://127.0.0.1:{settings.port}") as screen:
        await screen.open("servers", "one")
        await screen.page.get_by_label("Token").fill(tokens["operator"])
        await screen.press("Enter")
        await screen.page.get_by_role("button", name="Remove …").click()
        line = await screen.page.get_by_role("dialog").locator("pre").text_content() or ""
        assert '-H "Authorization: Bearer $VIGIL_TOKEN"' in line
        assert tokens["operator"] not in line
        await screen.page.get_by_role("button", name="Remove one").click()
        await screen.sees("No server yet")


async def test_a_token_that_was_refused_may_be_entered_again(
    guarded: tuple[Settings, dict[str, str]], browser: Browser
) -> None:
    """The events did not come back: nothing had changed as far as the page could see."""
    settings, tokens = guarded
    is_refused = True

    async def refused(route: Route) -> None:
        body = '{"code": "unauthorized", "detail": "No.", "remedy": ""}'
        await (route.fulfill(status=401, body=body) if is_refused else route.continue_())

    async with screen_at(browser, f"http://127.0.0.1:{settings.port}") as screen:
        page = screen.page
        await page.route("**/api/v1/**", refused)
        await screen.open("servers", "one")
        await page.get_by_label("Token").fill(tokens["operator"])
        await screen.press("Enter")
        await screen.sees("The service refused this token")
        is_refused = False
        await page.get_by_label("Token").fill(tokens["operator"])
        await screen.press("Enter")
        await expect(page.get_by_role("heading", name="one")).to_be_visible()
        await expect(page.locator(".link-state")).to_have_text("live")
        await screen.sees("token:operator, operator")
