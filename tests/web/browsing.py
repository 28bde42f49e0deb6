"""What the tests and the screenshots share: the service at a port, and a tab with everything that goes wrong in it."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import uvicorn
from playwright.async_api import Browser, Page, expect

from service.app import create_app
from service.settings import Settings
from tests.api.conftest import Api

BUILT = Path(__file__).parents[2] / "service" / "page" / "index.html"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_MS = 20_000


class Screen:
    """A tab of the browser at the service's address, and everything that went wrong in it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.faults: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda message: self._note(message.type, message.text))

    def _note(self, kind: str, text: str) -> None:
        # The browser itself tells of every answer of 4xx and 5xx and of lost connections: those are asked for here.
        if kind in {"error", "warning"} and "Failed to load resource" not in text and "net::ERR" not in text:
            self.faults.append(text)

    async def open(self, *place: str) -> None:
        """Go to a view by its address."""
        await self.page.goto(f"{self.url}/#/{'/'.join(place)}")

    async def sees(self, text: str) -> None:
        """Wait until a text can be seen."""
        await expect(self.page.get_by_text(text).first).to_be_visible(timeout=PATIENCE_MS)

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            await self.page.keyboard.press(key)

    async def tab_to(self, name: str) -> None:
        """Press Tab until the button or link of this name has the focus."""
        for _ in range(80):
            await self.page.keyboard.press("Tab")
            focused = await self.page.evaluate("document.activeElement?.textContent?.trim() ?? ''")
            if focused == name:
                return
        raise AssertionError(f"{name!r} cannot be reached with Tab")


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Api]:
    """Run the service at the port that is set, and give a client of it."""
    app = create_app(settings)
    config = uvicorn.Config(
        app, host="127.0.0.1", port=settings.port, lifespan="off", log_level="warning", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    url = f"http://127.0.0.1:{settings.port}"
    async with app.router.lifespan_context(app), httpx2.AsyncClient(base_url=url, timeout=60) as http:
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.02)
        try:
            yield Api(http, app.state.parts)
        finally:
            server.should_exit = True
            await task


@asynccontextmanager
async def screen_at(browser: Browser, url: str, *, width: int = 1280, scheme: str = "light") -> AsyncIterator[Screen]:
    """Give a tab; at the end nothing may have gone wrong in it."""
    dark = scheme == "dark"
    page = await browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    screen = Screen(page, url)
    yield screen
    await page.unroute_all(behavior="wait")  # a handler that still sleeps would answer what is answered already
    await page.close()
    assert not screen.faults, screen.faults
