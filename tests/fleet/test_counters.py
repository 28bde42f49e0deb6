"""An engine's counters: read on its node and folded here; an idle engine is asked for its health all the same."""

import asyncio

from service.operations.live import LiveLaunch
from service.sglang.metrics import EngineCounters
from tests.fleet.conftest import PATIENCE_S, World


async def test_the_counters_of_a_ready_server_are_known_and_stay_young(world: World) -> None:
    await world.take_in(world.atlas)
    server = await world.bring_up()
    live = world.api.parts.control.live.launches[server["launch"]["id"]]
    seen: set[object] = set()
    async with asyncio.timeout(PATIENCE_S):
        while len(seen) < 3:
            if live.verdicts and live.verdicts.flow.counters:
                assert live.verdicts.flow.counters != EngineCounters()
                seen.add(live.verdicts.flow.at)
            await asyncio.sleep(0.05)
    await _is_asked(live)


async def _is_asked(live: LiveLaunch) -> None:
    """Wait for one more answer of /health: an idle engine is asked for it."""
    asked_at = live.health.asked_at
    async with asyncio.timeout(PATIENCE_S):
        while live.health.asked_at == asked_at:
            await asyncio.sleep(0.05)
