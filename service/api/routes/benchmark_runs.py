"""Benchmark runs as they are kept: lists, results, files, and the import of what was measured elsewhere."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, status
from fastapi.responses import JSONResponse, StreamingResponse
from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.api.access import BodyLimits, GuardedRoute, caller_of, needs, takes_body
from service.api.dependencies import ActorNeeded, Id, IdempotencyKey, PageNeeded, Parts, PartsNeeded
from service.api.idempotency import Answer, carry_out, find_replay
from service.api.limits import HeldDownload
from service.api.problems import problems
from service.api.schemas.benchmark_runs import (
    BenchmarkRunDetail,
    BenchmarkRunPublic,
    ResultPublic,
    result_public,
    run_detail,
    run_public,
)
from service.api.schemas.common import MOST, GivenInstant, Page
from service.benchmarks.importing import DEFAULT_LIMITS
from service.benchmarks.runs import RunSource, RunState
from service.db import benchmark_files, benchmark_history, benchmarks
from service.db import profiles as profile_queries
from service.db import servers as server_queries
from service.db.benchmark_rows import with_surroundings
from service.db.benchmarks import RunFilter, RunSubject
from service.db.tables import Profile
from service.errors import (
    AlreadyImported,
    IdempotencyKeyReused,
    IllegalMove,
    InUse,
    InvalidInput,
    NotFound,
    ResultFileRejected,
    TooManyStreams,
)
from service.operations import importing
from service.operations.importing import About

router = APIRouter(prefix="/benchmark-runs", tags=["benchmarks"], route_class=GuardedRoute)
IMPORT_LIMITS = BodyLimits(
    most_bytes=DEFAULT_LIMITS.max_bytes,
    deadline_s=300,
    remedy="Write the result without per-request details, or import the summary file of the tool.",
)
Text = Annotated[str | None, Query(min_length=1, max_length=200)]


@router.get("", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def list_benchmark_runs(
    parts: PartsNeeded,
    page: PageNeeded,
    server: Annotated[str | None, Query(description="Only of this server.")] = None,
    profile: Annotated[str | None, Query(description="Only of this profile.")] = None,
    model: Annotated[str | None, Query(description="Only of this model, as runs name it.")] = None,
    benchmark: Annotated[str | None, Query(description="Only of the benchmark of this name.")] = None,
    state: Annotated[RunState | None, Query(description="Only in this state.")] = None,
    source: Annotated[RunSource | None, Query(description="Only Vigil's own, or only imported ones.")] = None,
    since: Annotated[GivenInstant | None, Query(description="Only accepted or imported from this instant on.")] = None,
) -> Page[BenchmarkRunPublic]:
    """List the runs, newest first, each with the most important numbers of its points of load."""
    async with parts.control.database.read() as session:
        wanted = RunFilter(
            server_id=(await server_queries.get_server(session, server)).id if server is not None else None,
            profile_id=(await profile_queries.get_profile(session, profile)).id if profile is not None else None,
            model=model,
            benchmark=benchmark,
            state=state,
            source=source,
            since=since,
        )
        rows = await benchmarks.list_runs(session, page, wanted)
        items = await with_surroundings(session, rows.items)
    return Page(items=[run_public(item) for item in items], next_cursor=rows.next_cursor)


@router.post(
    "/import",
    status_code=status.HTTP_201_CREATED,
    response_model=BenchmarkRunPublic,
    responses=problems(NotFound, InvalidInput, ResultFileRejected, AlreadyImported, IdempotencyKeyReused),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The file as the tool wrote it, at most 32 MiB.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
@takes_body(IMPORT_LIMITS)
@needs(Role.OPERATOR)
async def import_benchmark_run(
    parts: PartsNeeded,
    actor: ActorNeeded,
    request: Request,
    profile: Annotated[str | None, Query(description="The profile that was measured.")] = None,
    profile_version: Annotated[int | None, Query(ge=1, le=MOST, description="By default the newest one.")] = None,
    server: Annotated[str | None, Query(description="The server that was measured, instead of a profile.")] = None,
    benchmark: Annotated[
        str | None, Query(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$", description="The name of what was run.")
    ] = None,
    model: Annotated[Text, Query(description="The model, where the file does not tell it.")] = None,
    engine_version: Annotated[Text, Query(description="Likewise.")] = None,
    gpu_model: Annotated[Text, Query(description="Likewise.")] = None,
    gpu_count: Annotated[int | None, Query(ge=1, le=10_000, description="Likewise.")] = None,
    key: IdempotencyKey = None,
) -> JSONResponse:
    """Keep a result file that was made elsewhere, as a run.

    SGLang's JSONL (several lines are repeats, or points of load), the JSON of `vllm bench serve`, guidellm, aiperf,
    genai-perf, and evalscope (its summary and its table of percentiles as two lines). Each number is mapped by its
    formula, not by its label; what has no place in the schema is kept raw, and what is not known is said. Secrets in
    the file are masked before it is kept.
    """
    replay = await find_replay(parts, request, key)
    if replay is not None:
        return replay
    file = await parts.file_reader.read(await request.body())

    async def act(session: AsyncSession) -> Answer:
        subject, name = await _subject(session, server, profile, profile_version)
        about = About(
            subject=replace(subject, model=model),
            profile=name,
            benchmark=benchmark,
            engine_version=engine_version,
            gpu_model=gpu_model,
            gpu_count=gpu_count,
        )
        run = await importing.keep(session, file, about, at=parts.control.now(), actor=actor)
        (row,) = await with_surroundings(session, [run])
        return Answer(status.HTTP_201_CREATED, run_public(row), f"/api/v1/benchmark-runs/{run.id}")

    return await carry_out(parts, request, key, act)


@router.get("/{run}", responses=problems(NotFound))
@needs(Role.VIEWER)
async def get_benchmark_run(run: Id, parts: PartsNeeded) -> BenchmarkRunDetail:
    """Show a run: what was run against what, how far it has come, and the numbers of each repeat."""
    async with parts.control.database.read() as session:
        row = await benchmarks.get_run(session, run)
        (item,) = await with_surroundings(session, [row])
        results = await benchmarks.list_results(session, [run])
        files = await benchmark_files.list_files(session, run)
    return run_detail(item, results, files)


@router.get("/{run}/results", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def list_benchmark_results(run: Id, parts: PartsNeeded, page: PageNeeded) -> Page[ResultPublic]:
    """List the results of a run in the canonical schema, the last one kept first, with what was sampled beside them."""
    async with parts.control.database.read() as session:
        row = await benchmarks.get_run(session, run)
        rows = await benchmarks.page_of_results(session, row.id, page)
    return Page(items=[result_public(item) for item in rows.items], next_cursor=rows.next_cursor)


@router.get(
    "/{run}/raw",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The clients' files, secrets masked, one after the other by point and repeat.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        **problems(NotFound, InvalidInput, TooManyStreams),
    },
)
@needs(Role.VIEWER)
async def read_benchmark_files(
    run: Id,
    parts: PartsNeeded,
    request: Request,
    point: Annotated[int | None, Query(ge=0, le=MOST, description="Only of this point of load, by its index.")] = None,
    repeat: Annotated[int | None, Query(ge=0, le=MOST, description="Only of this repeat, by its index.")] = None,
) -> HeldDownload:
    """Read what the clients of a run wrote, as it is kept; of Vigil's own runs this is one JSON object a line.

    The run lists its files with their hashes, which are those from before secrets were masked.
    """
    async with parts.control.database.read() as session:
        row = await benchmarks.get_run(session, run)
        files = await benchmark_files.list_files(session, row.id)
    wanted = [
        file.id
        for file in files
        if point in {None, file.point_index} and repeat in {None, file.repeat_index} and file.id is not None
    ]
    if not wanted:
        raise NotFound(f"no such file of run {run} is kept")
    headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": f'attachment; filename="{row.id}.jsonl"'}
    seat = parts.gate.seats.take(caller_of(request), parts.control.now())
    return HeldDownload(_contents(parts, wanted), seat, headers=headers)


@router.delete(
    "/{run}",
    status_code=status.HTTP_204_NO_CONTENT,
    responses=problems(NotFound, IllegalMove, InUse, IdempotencyKeyReused),
)
@needs(Role.ADMIN)
async def delete_benchmark_run(
    run: Id, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Remove a run that has ended, with its results and files, such as a file that was imported by mistake."""

    async def act(session: AsyncSession) -> Answer:
        row = await benchmarks.get_run(session, run)
        if row.state is RunState.RUNNING:
            raise IllegalMove(f"run {row.id} is under way", remedy="Cancel its operation first.")
        if await benchmark_history.baselines_that_are(session, row.id):
            raise InUse(f"run {row.id} is a baseline", remedy="Make another run the baseline first.")
        await benchmarks.delete_run(session, row.id)
        return Answer(status.HTTP_204_NO_CONTENT)

    return await carry_out(parts, request, key, act)


async def _contents(parts: Parts, file_ids: list[int]) -> AsyncGenerator[bytes]:
    """Yield files one at a time, each with a line's end, so that not all are in memory at once."""
    for file_id in file_ids:
        async with parts.control.database.read() as session:
            content = await benchmark_files.read_content(session, file_id)
        yield content if content.endswith(b"\n") else content + b"\n"


async def _subject(
    session: AsyncSession, server: str | None, profile: str | None, profile_version: int | None
) -> tuple[RunSubject, str | None]:
    """Return what an import is of, and the name of its profile; InvalidInput if that contradicts itself."""
    if server is not None and (profile is not None or profile_version is not None):
        raise InvalidInput("give the server or the profile, not both")
    if server is not None:
        row = await server_queries.get_server(session, server)
        named = await session.get_one(Profile, row.profile_id)
        subject = RunSubject(
            server_id=row.id,
            launch_id=row.launch_id,
            node_id=row.node_id,
            profile_id=row.profile_id,
            profile_version=row.profile_version,
        )
        return subject, named.name
    if profile is None:
        if profile_version is not None:
            raise InvalidInput("a profile_version needs a profile")
        return RunSubject(), None
    named = await profile_queries.get_profile(session, profile)
    version = await profile_queries.get_profile_version(session, named.id, profile_version or named.latest_version)
    return RunSubject(profile_id=named.id, profile_version=version.number), named.name
