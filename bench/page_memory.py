"""Memory of the page over minutes of live events: `PYTHONPATH=. python bench/page_memory.py [--minutes 10]`.

A server on the embedded fleet is restarted without a pause, beside 200 that rest. Each half minute the page's garbage
is collected and its heap, DOM nodes and listeners are printed; the last third must not lie above the first.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from statistics import mean

from playwright.async_api import CDPSession, async_playwright

from service.settings import Access, Settings
from service.simulator.fleet import EmbeddedFleet
from tests.contract.vigil import free_port
from tests.scenarios.conftest import SPECS, Stage
from tests.web.browsing import CHROMIUM, serving
from tests.web.test_many import crowd

GROWTH_BYTES = 1_000_000
SAMPLE_EVERY_S = 30


async def main(minutes: float) -> None:
    """Print the samples, and fail when the heap grew."""
    with tempfile.TemporaryDirectory(prefix="vigil-page-memory-") as root:
        settings = Settings(access=Access.OPEN, state_dir=Path(root) / "state", port=free_port(), health_interval_s=1)
        async with EmbeddedFleet(Path(root) / "fleet", SPECS) as fleet, serving(settings) as api:
            stage = Stage(api, fleet)
            await stage.take_in(stage.atlas)
            await crowd(stage)
            await stage.bring_up("zz-alive")
            restarting = asyncio.create_task(_restart_for_ever(stage))
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                page = await browser.new_page()
                await page.goto(f"http://127.0.0.1:{settings.port}/")
                await page.get_by_role("link", name="zz-alive", exact=True).wait_for()
                heaps = await _samples(await page.context.new_cdp_session(page), minutes)
                await browser.close()
            restarting.cancel()
            await asyncio.gather(restarting, return_exceptions=True)
    third = max(1, len(heaps) // 3)
    growth = mean(heaps[-third:]) - mean(heaps[:third])
    print(f"growth of the last third over the first: {growth / 1e6:+.2f} MB")
    assert growth < GROWTH_BYTES


async def _samples(devtools: CDPSession, minutes: float) -> list[float]:
    """Return the heap in bytes at each sample."""
    heaps = []
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < minutes * 60:
        await asyncio.sleep(SAMPLE_EVERY_S)
        await devtools.send("HeapProfiler.collectGarbage")
        heap = await devtools.send("Runtime.getHeapUsage")
        counts = await devtools.send("Memory.getDOMCounters")
        heaps.append(float(heap["usedSize"]))
        print(
            f"{time.monotonic() - begun_s:5.0f} s  heap {heaps[-1] / 1e6:6.2f} MB  "
            f"{counts['nodes']} nodes  {counts['jsEventListeners']} listeners",
            flush=True,
        )
    return heaps


async def _restart_for_ever(stage: Stage) -> None:
    while True:
        await stage.post("/servers/zz-alive/restart")
        await stage.get("/servers/zz-alive/wait?timeout_s=60")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    asyncio.run(main(parser.parse_args().minutes))
