"""Workload definitions, and the baselines of profiles."""

from fastapi import APIRouter, Request, status
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import ActorNeeded, IdempotencyKey, PageNeeded, PartsNeeded, Reference
from service.api.idempotency import Answer, carry_out
from service.api.problems import problems
from service.api.schemas.benchmarks import (
    BaselinePublic,
    BaselineSet,
    BenchmarkCreate,
    BenchmarkPresets,
    BenchmarkPublic,
    baseline_public,
    benchmark_public,
    presets_public,
)
from service.api.schemas.common import Page
from service.db import benchmark_definitions as definitions
from service.db import benchmark_history, benchmarks
from service.db import profiles as profile_queries
from service.db.benchmark_tables import Benchmark
from service.errors import IdempotencyKeyReused, InvalidInput, NameTaken, NotFound
from service.ids import new_id
from service.operations import comparing

router = APIRouter(tags=["benchmarks"], route_class=GuardedRoute)


@router.post(
    "/benchmarks",
    status_code=status.HTTP_201_CREATED,
    response_model=BenchmarkPublic,
    responses=problems(InvalidInput, NameTaken, IdempotencyKeyReused),
)
@needs(Role.OPERATOR)
async def create_benchmark(
    body: BenchmarkCreate, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Define a workload. It cannot be changed later: give another one another name."""

    async def act(session: AsyncSession) -> Answer:
        await definitions.require_free_benchmark_name(session, body.name)
        at = parts.control.now()
        workload = body.workload.model_dump(mode="json")
        row = Benchmark(id=new_id("bm", at), name=body.name, workload=workload, created_at=at)
        session.add(row)
        await session.flush()
        public = benchmark_public(row.name, body.workload, row)
        return Answer(status.HTTP_201_CREATED, public, f"/api/v1/benchmarks/{row.name}")

    return await carry_out(parts, request, key, act)


@router.get("/benchmarks", responses=problems(InvalidInput))
@needs(Role.VIEWER)
async def list_benchmarks(parts: PartsNeeded, page: PageNeeded) -> Page[BenchmarkPublic]:
    """List the workloads that were defined here, newest first; those that are shipped are in /benchmark-presets."""
    async with parts.control.database.read() as session:
        rows = await definitions.list_benchmarks(session, page)
    items = [benchmark_public(row.name, definitions.definition_of(row).workload, row) for row in rows.items]
    return Page(items=items, next_cursor=rows.next_cursor)


@router.get("/benchmark-presets")
@needs(Role.VIEWER)
async def list_benchmark_presets() -> BenchmarkPresets:
    """List the workloads that are shipped, which can be run by their names, and latency limits for goodput."""
    return presets_public()


@router.get("/benchmarks/{benchmark}", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def get_benchmark(benchmark: Reference, parts: PartsNeeded) -> BenchmarkPublic:
    """Show a workload, defined or shipped."""
    async with parts.control.database.read() as session:
        found = await definitions.get_definition(session, benchmark)
        row = await session.get(Benchmark, found.id) if found.id else None
    return benchmark_public(found.name, found.workload, row)


@router.delete(
    "/benchmarks/{benchmark}",
    status_code=status.HTTP_204_NO_CONTENT,
    responses=problems(NotFound, InvalidInput, IdempotencyKeyReused),
)
@needs(Role.OPERATOR)
async def delete_benchmark(
    benchmark: Reference, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Remove a workload. Runs keep their snapshot of it; schedules of it skip their turns and say why."""

    async def act(session: AsyncSession) -> Answer:
        row = await definitions.get_benchmark(session, benchmark)
        row.deleted_at = parts.control.now()
        return Answer(status.HTTP_204_NO_CONTENT)

    return await carry_out(parts, request, key, act)


@router.put(
    "/profiles/{profile}/baseline",
    response_model=BaselinePublic,
    responses=problems(NotFound, InvalidInput, IdempotencyKeyReused),
)
@needs(Role.OPERATOR)
async def set_baseline(
    profile: Reference,
    body: BaselineSet,
    parts: PartsNeeded,
    actor: ActorNeeded,
    request: Request,
    key: IdempotencyKey = None,
) -> JSONResponse:
    """Make a run what later runs of this profile and of the same benchmark are compared with when they end.

    Each benchmark has a baseline of its own. Choose a run of three repeats or more: with one, most comparisons are
    inconclusive, because nothing is known of the noise.
    """

    async def act(session: AsyncSession) -> Answer:
        row = await profile_queries.get_profile(session, profile)
        run = await benchmarks.get_run(session, body.run)
        baseline = await comparing.pin_baseline(session, row.id, run, at=parts.control.now(), actor=actor)
        return Answer(status.HTTP_200_OK, baseline_public(baseline, row.name))

    return await carry_out(parts, request, key, act)


@router.get("/profiles/{profile}/baselines", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def list_baselines(profile: Reference, parts: PartsNeeded) -> list[BaselinePublic]:
    """List the baselines of a profile, one a benchmark."""
    async with parts.control.database.read() as session:
        row = await profile_queries.get_profile(session, profile)
        baselines = await benchmark_history.list_baselines(session, row.id)
    return [baseline_public(baseline, row.name) for baseline in baselines]
