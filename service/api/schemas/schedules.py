"""Schedules of benchmark runs as the API shows them."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, StrictBool

from service.api.schemas.common import Name, Request, shown
from service.benchmarks.cron import parse_cron
from service.benchmarks.run_order import MAX_REPEATS
from service.benchmarks.runs import SkipReason
from service.benchmarks.workload import DEFAULT_REPEATS
from service.clock import Instant
from service.db.benchmark_tables import Schedule


def _checked(text: str) -> str:
    parse_cron(text)
    return text


CronText = Annotated[
    str,
    AfterValidator(_checked),
    Field(
        max_length=100,
        examples=["30 2 * * *", "0 */6 * * mon-fri"],
        description="Minute, hour, day of month, month, day of week. Sunday is 0 and 7. A day of month and a day of "
        "week cannot both be given.",
    ),
]
TimeZone = Annotated[str, Field(min_length=1, max_length=60, examples=["UTC", "Europe/Berlin"])]
Repeats = Annotated[int, Field(strict=True, ge=1, le=MAX_REPEATS)]


class ScheduleCreate(Request):
    """Runs by the clock."""

    model_config = shown(
        {
            "name": "nightly",
            "cron": "30 2 * * *",
            "timezone": "Europe/Berlin",
            "server": "llama",
            "benchmark": "smoke",
        }
    )

    name: Name
    cron: CronText
    timezone: TimeZone = "UTC"
    server: str = Field(description="The name or id of the server.")
    benchmark: str = Field(description="The name or id of a workload that was defined, or the name of a shipped one.")
    repeats: Repeats = DEFAULT_REPEATS
    is_paused: StrictBool = False


class ScheduleUpdate(Request):
    """What is to be changed; what is not named stays."""

    model_config = shown({"is_paused": True})

    cron: CronText | None = None
    timezone: TimeZone | None = None
    repeats: Repeats | None = None
    is_paused: StrictBool | None = None


class SchedulePublic(BaseModel):
    """A schedule, when its turn is next, and what came of the last one."""

    id: str
    name: str
    cron: str
    timezone: str
    server: str
    benchmark: str
    repeats: int
    is_paused: bool
    next_at: Instant | None = Field(description="null while it is paused, and for a moment after it was changed.")
    last_at: Instant | None = Field(description="The last turn, whatever came of it.")
    last_run_id: str | None = Field(description="The last run that it began.")
    last_skip: SkipReason | None = Field(description="Why the last turn began no run; null when it began one.")
    last_skip_detail: str | None
    actor: str
    created_at: Instant


def schedule_public(row: Schedule, server: str) -> SchedulePublic:
    """Return a schedule as the API shows it."""
    names = set(SchedulePublic.model_fields) - {"server"}
    return SchedulePublic(server=server, **{name: getattr(row, name) for name in names})
