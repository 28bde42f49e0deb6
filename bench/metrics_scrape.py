"""What a scrape of /metrics costs with many servers: how long it takes, and how long it keeps the event loop.

PYTHONPATH=. python bench/metrics_scrape.py [1000]
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from fleet_rows import NodeRow, write_fleet
from sqlalchemy import update

from service.api.metrics.meter import Meter
from service.api.metrics.tallies import Tallies
from service.clock import utc_now
from service.db.engine import Database
from service.db.overview import ServerOverview, StartTimes, servers
from service.db.tables import Launch, Node
from service.nodes.contact import Contact
from service.operations.control import Control
from service.operations.live import LiveLaunch
from service.operations.verdicts import VerdictWatch
from service.profiles.profile import Profile
from service.remote.connections import Connections
from service.servers.observation import HealthFact
from service.servers.progress import History
from service.settings import Settings
from service.sglang.health import HealthAnswer
from service.sglang.phases import Phase
from service.sglang.startup_log import StartupLog

ROUNDS = 20
PROFILES = 20


async def main(count: int) -> None:
    """Measure ROUNDS scrapes of a fleet with one ready server a node, every kind of series present."""
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite+aiosqlite:///{directory}/vigil.db"
        rows = [NodeRow(f"node-{number:04}", 22) for number in range(count)]
        await write_fleet(url, rows, key_file=Path("/dev/null"), host_key="", now=utc_now())
        control = Control(Settings(state_dir=Path(directory)), Database(url), Connections())
        await _bring_alive(control)
        tallies = Tallies(0)
        for number in range(PROFILES):
            for phase in Phase:
                tallies._count_start(StartTimes(f"profile-{number}", 60.0, ((phase, 5.0),)))  # noqa: SLF001
        meter = Meter(control, tallies)
        took_s, cpu_s, lags_s, idle_lags_s, page = [], [], [], [], b""
        for _ in range(ROUNDS):
            lag = asyncio.create_task(_note_lags(lags_s))
            began, cpu = time.perf_counter(), time.process_time()
            page = await meter.scrape()
            took_s.append(time.perf_counter() - began)
            cpu_s.append(time.process_time() - cpu)
            lag.cancel()
            lag = asyncio.create_task(_note_lags(idle_lags_s))
            await asyncio.sleep(0.2)
            lag.cancel()
        series = sum(not line.startswith(b"#") for line in page.splitlines())
        print(f"{count} servers and nodes, {PROFILES} profiles: {series} series, {len(page) / 2**20:.1f} MiB")
        print(f"scrape: median {_ms(statistics.median(took_s))}, longest {_ms(max(took_s))}")
        print(f"CPU of the service: median {_ms(statistics.median(cpu_s))}, longest {_ms(max(cpu_s))}")
        print(f"event loop late, 99th percentile: {_ms(_p99(lags_s))}; between scrapes {_ms(_p99(idle_lags_s))}")
        await control.database.close()


async def _bring_alive(control: Control) -> None:
    """Give every server a launch that is watched, and every node its contact."""
    now = control.now()
    async with control.database.write() as session:
        await session.execute(update(Node).values(contact=Contact.OK))
    async with control.database.read() as session:
        known: dict[str | None, ServerOverview] = {server.launch_id: server for server in await servers(session)}
        for launch_id in filter(None, known):
            launch = await session.get_one(Launch, launch_id)
            watch = VerdictWatch(Profile.model_validate(launch.recipe), launch, History(), now=now)
            watch.think_of_serving(HealthFact(HealthAnswer.OK, now, now, 200, 0), now, is_stopping=False)
            control.live.launches[launch_id] = LiveLaunch(log=StartupLog(), observed_at=now, verdicts=watch)
            node = control.live.node(launch.node_id)
            node.heard_at = node.turn_at = now
            node.disk_free_mib, node.shm_free_mib = 100_000, 1000


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


async def _note_lags(lags_s: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        lags_s.append(time.perf_counter() - began - 0.001)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
