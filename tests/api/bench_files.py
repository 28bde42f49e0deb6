"""Result files of made runs for the API's tests: lines as SGLang's client writes them, at wanted throughputs."""

import random
from collections.abc import Sequence
from typing import Any

from sqlmodel import col, select

from service.db.event_tables import Event
from service.servers.event import EventKind
from tests.api.conftest import RECIPE, Api
from tests.benchmarks.tool_files import sglang_line

TOKENS = 8704
STEADY_90 = (90.0, 90.6, 89.5, 90.2, 89.8)


def line(output_tps: float, *, concurrency: int = 3, **changes: Any) -> bytes:
    """Return a line whose output tokens over its duration give a throughput."""
    fields = {
        "total_output_tokens": TOKENS,
        "duration": TOKENS / output_tps,
        "max_concurrency": concurrency,
        "output_throughput": output_tps,
        **changes,
    }
    return sglang_line(**fields)


def lines(throughputs: Sequence[float], **changes: Any) -> bytes:
    """Return a file with a line for each throughput: repeats of one point."""
    return b"\n".join(line(value, **changes) for value in throughputs)


def steady(mean: float, *, seed: int, noise: float = 0.01, repeats: int = 5) -> list[float]:
    """Return throughputs of repeats around a mean."""
    dice = random.Random(seed)  # noqa: S311
    return [mean * dice.lognormvariate(0, noise) for _ in range(repeats)]


async def import_file(api: Api, content: bytes, query: str = "", *, expect: int = 201) -> Any:
    """Import a file and return the answer's document."""
    answer = await api.http.post(f"/api/v1/benchmark-runs/import?{query}", content=content)
    assert answer.status_code == expect, answer.text
    return answer.json()


async def make_profile(api: Api, name: str = "kimi") -> None:
    """Write a profile."""
    status, document = await api.call("POST", "/profiles", {"name": name, "recipe": RECIPE})
    assert status == 201, document


async def get(api: Api, path: str, *, expect: int = 200) -> Any:
    """Return the document of a GET."""
    status, document = await api.call("GET", path)
    assert status == expect, document
    return document


async def regressions(api: Api) -> list[Any]:
    """Return what the events tell of regressions."""
    async with api.parts.control.database.read() as session:
        rows = (await session.execute(select(Event).where(col(Event.kind) == EventKind.BENCHMARK_REGRESSED))).scalars()
        return [row.document for row in rows]
