"""`python -m tests.web.screenshots`: pictures of the main views in docs/screenshots, of a fleet in every state."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from service.settings import Access, Settings
from service.simulator.demo import demo_fleet, node_body, profile_bodies
from service.simulator.fleet import EmbeddedFleet
from tests.api.bench_files import import_file, line, steady
from tests.api.conftest import Api
from tests.contract.vigil import free_port
from tests.web.browsing import CHROMIUM, serving

TARGET = Path(__file__).parents[2] / "docs" / "screenshots"
WIDE, NARROW = 1280, 320
READY_S = 60
OF = "profile=borealis-llama&benchmark=chat-1k-1k&gpu_model=H100&gpu_count=2"


async def main() -> None:
    """Bring the fleet up and take every picture."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vigil-screenshots-") as root:
        settings = Settings(access=Access.OPEN, state_dir=Path(root) / "state", port=free_port(), health_interval_s=1)
        async with demo_fleet(Path(root) / "fleet") as fleet, serving(settings) as api:
            await _bring_up(api, fleet)
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                await _take(browser, api, f"http://127.0.0.1:{settings.port}")
                await browser.close()


async def _bring_up(api: Api, fleet: EmbeddedFleet) -> None:
    """Take the nodes in; then one server is ready, one failed, one hangs, one is stopped, and a big one starts."""
    for node in fleet.nodes:
        await _post(api, "/nodes", node_body(node))
    for node in fleet.nodes:
        await _until(api, f"/nodes/{node.name}", lambda document: document["contact"]["state"] == "ok")
    bodies = {str(body["name"]): body for body in profile_bodies(fleet)}
    bodies["borealis-llama-frozen"]["recipe"]["limits"] = {"hang_after_s": 3}  # type: ignore[index]
    bodies["atlas-kimi"]["recipe"]["env"] = {"VIGIL_SIM_SCRIPT": "scenario_e", "VIGIL_SIM_TIME_SCALE": "0.2"}  # type: ignore[index]
    for body in bodies.values():
        await _post(api, "/profiles", body)
    await _launch(api, "kimi", "atlas-kimi", "atlas")
    await _launch(api, "llama", "borealis-llama-fast", "borealis")
    await _launch(api, "llama-oom", "borealis-llama-oom", "borealis")
    await _launch(api, "llama-frozen", "borealis-llama-frozen", "borealis")
    await _post(api, "/servers", {"name": "tiny", "profile": "cirrus-tiny", "node": "cirrus"})
    for name in ("kimi", "llama"):
        for _ in range(3):
            await _until(api, f"/servers/{name}", lambda document: document["state"] == "ready")
            await _post(api, f"/servers/{name}/restart")
            await asyncio.sleep(0.5)
        await _until(api, f"/servers/{name}", lambda document: document["state"] == "ready")
    await _until(api, "/servers/llama-frozen", lambda server: server["verdict"]["verdict"] == "suspected_hung")
    slow = {**bodies["atlas-kimi"]["recipe"], "env": {"VIGIL_SIM_SCRIPT": "scenario_e", "VIGIL_SIM_TIME_SCALE": "4"}}  # type: ignore[dict-item]
    await api.call("PUT", "/profiles/atlas-kimi", {"recipe": slow})
    await _post(api, "/servers/kimi/restart", {"version": 2})
    await _until(api, "/servers/kimi", lambda document: (document["launch"] or {}).get("phase") == "compiling_kernels")
    for name in ("atlas", "borealis"):
        await _post(api, f"/nodes/{name}/refresh")
    await _measure(api)


async def _measure(api: Api) -> None:
    """Import runs of a model that lost a fifth of its throughput with a new version of the engine."""
    runs = []
    for turn in range(16):
        mean, version = (90.0, "0.5.16") if turn < 9 else (73.0, "0.5.23")
        sweep = [
            line(value * scale, concurrency=concurrency, accept_length=3.1)
            for concurrency, scale in ((1, 0.3), (4, 1.0), (16, 2.1))
            for value in steady(mean, seed=100 * turn + concurrency, repeats=5)
        ]
        runs.append(await import_file(api, b"\n".join(sweep), f"{OF}&engine_version={version}"))
    await api.call("PUT", "/profiles/borealis-llama/baseline", {"run": runs[8]["id"]})


async def _lose_the_draft(api: Api) -> None:
    """Import the run of the story: speculation that accepts nothing."""
    lost = [line(value, concurrency=4, accept_length=1.0) for value in steady(24.8, seed=7, repeats=5)]
    await import_file(api, b"\n".join(lost), f"{OF}&engine_version=0.5.23")


async def _take(browser: Browser, api: Api, url: str) -> None:
    for scheme in ("light", "dark"):
        page = await _page(browser, url, WIDE, scheme)
        await _picture(page, f"fleet-{scheme}", "#/")
        await _picture(page, f"starting-{scheme}", "#/servers/kimi")
        await page.close()
    page = await _page(browser, url, WIDE, "light")
    await _picture(page, "failed", "#/servers/llama-oom")
    await _picture(page, "hung", "#/servers/llama-frozen")
    await _picture(page, "history", "#/servers/kimi/history")
    await page.goto(f"{url}/#/servers/llama")
    await page.get_by_role("button", name="Restart …").click()
    await page.get_by_text("Preflight passed").wait_for()
    await page.get_by_text("The same with curl").click()
    await page.screenshot(path=TARGET / "restart.png")
    await page.keyboard.press("Escape")
    await _picture(page, "benchmark-history", "#/benchmarks/history/borealis-llama")
    await _lose_the_draft(api)
    await _picture(page, "benchmarks", "#/benchmarks")
    await page.get_by_role("table").get_by_role("link").first.click()
    await page.get_by_text("Against the baseline").wait_for()
    await page.get_by_role("link", name="The whole comparison").click()
    await page.wait_for_timeout(1500)
    await page.screenshot(path=TARGET / "comparison.png", full_page=True)
    await page.close()
    page = await _page(browser, url, NARROW, "light")
    await _picture(page, "fleet-narrow", "#/")
    await page.close()


async def _page(browser: Browser, url: str, width: int, scheme: str) -> Page:
    is_dark = scheme == "dark"
    page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark" if is_dark else "light")
    await page.goto(url)
    return page


async def _picture(page: Page, name: str, place: str) -> None:
    await page.evaluate("place => location.hash = place", place)
    await page.wait_for_timeout(1500)
    await page.screenshot(path=TARGET / f"{name}.png")


async def _launch(api: Api, name: str, profile: str, node: str) -> None:
    await _post(api, "/servers", {"name": name, "profile": profile, "node": node, "launch": True})


async def _post(api: Api, path: str, body: object = None) -> Any:
    status, document = await api.call("POST", path, body)
    if status >= 400:
        raise RuntimeError(f"POST {path}: {document}")
    return document


async def _until(api: Api, path: str, is_true: Any) -> None:
    async with asyncio.timeout(READY_S):
        while True:
            _, document = await api.call("GET", path)
            if is_true(document):
                return
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main())
