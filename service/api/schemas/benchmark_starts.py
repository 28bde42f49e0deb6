"""What a request for a benchmark run says, and what it is answered."""

from typing import Annotated

from pydantic import BaseModel, Field

from service.api.schemas.common import Request, shown
from service.api.schemas.history import OperationPublic
from service.benchmarks.run_order import MAX_REPEATS
from service.benchmarks.workload import DEFAULT_REPEATS


class BenchmarkRunCreate(Request):
    """A run that is asked for."""

    model_config = shown({"server": "llama", "benchmark": "chat-1k-1k", "repeats": 5})

    server: str = Field(description="The name or id of a server that is ready.", examples=["llama"])
    benchmark: str = Field(description="The name or id of a benchmark, or a preset's name.", examples=["smoke"])
    repeats: Annotated[int, Field(strict=True, ge=1, le=MAX_REPEATS)] = Field(
        default=DEFAULT_REPEATS,
        description="How often each point of load is measured; fewer than five often leave a difference unproven.",
    )
    against: str | None = Field(
        default=None,
        description="A second server, measured in turns with the first: ABBA…, repeat by repeat. It is a run of "
        "its own; compare the two with GET /benchmark-comparisons.",
    )


class BenchmarkRunAccepted(BaseModel):
    """A run that was accepted: follow it at `Location`."""

    id: str
    server: str
    benchmark: str
    repeats: int
    steps: int = Field(description="Points of load times repeats: so often the client is run.")
    operation: OperationPublic
    against: "BenchmarkRunAccepted | None" = Field(default=None, description="The run on the second server.")
