"""What readers of `GET /events` cost: one service that tells R events a second, N readers that each want them all.

For each N: how many events each reader got, in what order, how long after they were told (the reading process
included), and what CPU and memory the service took, beside the same without readers. After each N 100 readers come
back at once from the beginning.
"""

import argparse
import asyncio
import json
import os
import random
import re
import sys
import tempfile
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from fake_nodes import free_port

from service import logs
from service.cli.serving import server_of
from service.operations import events
from service.operations.control import Control
from service.operations.event_documents import VerdictChanged
from service.servers.event import EventKind
from service.settings import Settings

SERVERS = 50
TOGETHER = 5
"""So many events in one transaction: a start that fails is as many."""
FRAME = re.compile(rb'id: (\d+)\nevent: \w+\ndata: \{"id":\d+,"kind":"\w+","at":"([^"]+)"')
SETTLE_S = 2.0


@dataclass
class Reader:
    """One connection at a time, and what came through it; with a pause it takes little at once."""

    pause_s: float = 0.0

    ids: "array[int]" = field(default_factory=lambda: array("q"))
    lags_s: "array[float]" = field(default_factory=lambda: array("d"))

    async def read(self, port: int, *, after: int | None = None, last_event_id: int | None = None) -> None:
        """Read until cancelled or the end."""
        query = f"after={after}" if after is not None else ""
        header = f"Last-Event-ID: {last_event_id}\r\n" if last_event_id is not None else ""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
        writer.write(f"GET /api/v1/events?{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{header}\r\n".encode())
        rest = b""
        try:
            while chunk := await reader.read(4_096 if self.pause_s else 262_144):
                now_s = time.time()
                whole, separator, rest = (rest + chunk).rpartition(b"\n\n")
                for number, at in FRAME.findall(whole + separator):
                    self.ids.append(int(number))
                    self.lags_s.append(now_s - datetime.fromisoformat(at.decode()).timestamp())
                if self.pause_s:
                    await asyncio.sleep(self.pause_s)
        finally:
            writer.close()


async def main() -> None:
    """Measure each N and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", type=int, nargs="*", default=[0, 1, 100, 500], metavar="N")
    parser.add_argument("--rate", type=int, default=50, help="events a second")
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    print(
        "| readers | events/s told | got by each | readers that lost one or got one twice or in another order "
        "| lag p50 / p99 / most | CPU of one core | memory |"
    )
    print("|---|---|---|---|---|---|---|")
    for count in arguments.counts:
        await _measure(count, arguments.rate, arguments.seconds)


async def _measure(count: int, rate: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="vigil-events-") as directory:
        port = free_port()
        settings = {
            "VIGIL_STATE_DIR": directory,
            "VIGIL_PORT": str(port),
            "VIGIL_ACCESS": "open",
            "VIGIL_LOG_LEVEL": "ERROR",
        }
        service = await asyncio.create_subprocess_exec(
            sys.executable,
            __file__,
            "--serve",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **settings},
        )
        await _ask(service, "up")
        readers = [Reader() for number in range(count)]
        tasks = [asyncio.create_task(reader.read(port)) for reader in readers]
        await asyncio.sleep(SETTLE_S)
        before = await _ask(service, "mark")
        told = await _ask(service, f"tell {rate} {seconds}")
        await asyncio.sleep(SETTLE_S)
        after = await _ask(service, "mark")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        _print(readers, told, before, after)
        if count:
            await _come_back(port, told["count"])
        assert service.stdin is not None
        service.stdin.close()
        await service.wait()


async def _come_back(port: int, count: int) -> None:
    """Let 100 readers come back from the beginning at once."""
    readers = [Reader() for _ in range(100)]
    began = time.monotonic()
    tasks = [asyncio.create_task(reader.read(port, after=0)) for reader in readers]
    while any(len(reader.ids) < count for reader in readers) and time.monotonic() - began < 60:
        await asyncio.sleep(0.02)
    took_s = time.monotonic() - began
    wrong = sum(list(reader.ids) != list(range(1, count + 1)) for reader in readers)
    print(f"| 100 come back | {count} each in {took_s:.2f} s | | {wrong} | | | |", flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _print(readers: Sequence[Reader], told: Any, before: Any, after: Any) -> None:
    expected = list(range(told["first"], told["first"] + told["count"]))
    wrong = sum(list(reader.ids) != expected for reader in readers)
    lags = sorted(lag for reader in readers for lag in reader.lags_s)
    spread = (
        " / ".join(f"{lags[int(share * (len(lags) - 1))] * 1000:.0f}" for share in (0.5, 0.99, 1.0)) if lags else "-"
    )
    got = f"{min(len(reader.ids) for reader in readers)}" if readers else "-"
    wall_s = after["wall_s"] - before["wall_s"]
    cpu = (after["cpu_s"] - before["cpu_s"]) / wall_s * 100
    print(
        f"| {len(readers)} | {told['count'] / told['took_s']:.0f} | {got} | {wrong} | {spread} ms | {cpu:.0f} % "
        f"| {before['rss_mib']:.0f} → {after['rss_mib']:.0f} MiB |",
        flush=True,
    )


async def _ask(service: asyncio.subprocess.Process, word: str) -> Any:
    assert service.stdin is not None
    assert service.stdout is not None
    service.stdin.write(word.encode() + b"\n")
    return json.loads(await service.stdout.readline())


async def serve() -> None:
    """Serve as `vigil serve` does, and do what standard input says."""
    settings = Settings()
    logs.configure(settings.log_level)
    server = server_of(settings)
    serving = asyncio.create_task(server.serve())
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        word, *arguments = line.split()
        while not server.started:
            await asyncio.sleep(0.05)
        app: Any = server.config.app
        said: dict[str, Any] = {}
        if word == "mark":
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
            rss_mib = pages * os.sysconf("SC_PAGESIZE") / 2**20
            said = {"wall_s": time.monotonic(), "cpu_s": time.process_time(), "rss_mib": rss_mib}
        elif word == "tell":
            said = await _tell(app.state.parts.control, int(arguments[0]), float(arguments[1]))
        print(json.dumps(said), flush=True)
    server.should_exit = True
    await serving


async def _tell(control: Control, rate: int, seconds: float) -> dict[str, Any]:
    """Write events at a rate, some in one transaction, for so many seconds."""
    first, count, began = control.feed.newest_id + 1, 0, time.monotonic()
    while (passed_s := time.monotonic() - began) < seconds:
        if count > rate * passed_s:
            await asyncio.sleep(count / rate - passed_s)
            continue
        async with control.database.write() as session:
            for _ in range(TOGETHER):
                number = random.randrange(SERVERS)  # noqa: S311
                document = VerdictChanged(before="progressing", after="slow", message="no sign of progress for 40 s")
                events.publish(
                    session,
                    EventKind.VERDICT_CHANGED,
                    node_id=f"nd_{number}",
                    server_id=f"sv_{number}",
                    launch_id=f"ln_{number}",
                    document=document,
                    at=control.now(),
                )
        count += TOGETHER
    return {"first": first, "count": count, "took_s": time.monotonic() - began}


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1:] == ["--serve"] else main())
