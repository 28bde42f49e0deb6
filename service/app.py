"""The composition root: makes the parts, opens them in order, and closes them in reverse."""

import gc
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.routing import APIRoute

from service.api import openapi, problems, webhook_calls
from service.api.access import Gate, require_guarded
from service.api.dependencies import Parts
from service.api.metrics.meter import Meter
from service.api.pages import pages_router
from service.api.routes import (
    benchmark_comparisons,
    benchmark_history,
    benchmark_runs,
    benchmark_starts,
    benchmarks,
    caller,
    drafts,
    events,
    history,
    launches,
    nodes,
    operational,
    preflights,
    profiles,
    schedules,
    servers,
    tokens,
    waiting,
    webhooks,
)
from service.db import migrating
from service.db.engine import Database, prepare_state_dir
from service.db.holding import held
from service.operations.control import Control
from service.operations.opening import open_to_callers, require_safe
from service.operations.runner import OperationRunner
from service.operations.token_book import TokenBook
from service.remote.connections import Connections
from service.settings import Settings
from service.watchers.fleet_watch import FleetWatch
from service.watchers.webhook_delivery import WebhookCourier

API_PREFIX = "/api/v1"
COLLECTOR_THRESHOLDS = (50_000, 10, 10)
SWITCH_INTERVAL_S = 0.0005


def create_app(settings: Settings) -> FastAPI:
    """Return the application; nothing is opened before it starts."""
    app = FastAPI(
        title="Vigil",
        version=version("vigil-control"),
        lifespan=lambda app: _running(app, settings),
        generate_unique_id_function=_operation_id,
        webhooks=webhook_calls.router,
    )
    for routes in (
        nodes,
        drafts,
        profiles,
        preflights,
        servers,
        waiting,
        launches,
        history,
        events,
        webhooks,
        tokens,
        caller,
        benchmarks,
        benchmark_starts,
        benchmark_runs,
        benchmark_comparisons,
        benchmark_history,
        schedules,
    ):
        app.include_router(require_guarded(routes.router), prefix=API_PREFIX)
    app.include_router(require_guarded(operational.router))
    app.include_router(require_guarded(pages_router()))
    problems.install(app)
    openapi.install(app)
    return app


@asynccontextmanager
async def _running(app: FastAPI, settings: Settings) -> AsyncIterator[None]:
    """Hold, migrate and open the database, resume operations, watch the nodes; at the end close all in reverse."""
    require_safe(settings)
    prepare_state_dir(settings.resolved_state_dir())
    async with AsyncExitStack() as stack:
        stack.enter_context(_willing_to_switch())
        stack.enter_context(held(settings.resolved_database_url()))
        migrating.upgrade(settings.resolved_database_url())
        database = Database(settings.resolved_database_url())
        stack.push_async_callback(database.close)
        connections = Connections(open_deadline_s=settings.connect_deadline_s)
        stack.push_async_callback(connections.close)
        control = Control(settings=settings, database=database, connections=connections)
        runner = OperationRunner(control)
        stack.push_async_callback(runner.close)
        fleet = FleetWatch(control, runner)
        stack.push_async_callback(fleet.close)
        await open_to_callers(control)
        gate = Gate(settings, TokenBook(database, control.now))
        await stack.enter_async_context(gate.keeping_up())
        await control.feed.start()
        stack.push_async_callback(control.feed.close)
        courier = WebhookCourier(control)
        stack.push_async_callback(courier.close)
        courier.start()
        app.state.meter = await Meter.begin(control)
        app.state.gate = gate
        app.state.parts = Parts(control=control, runner=runner, gate=gate)
        await fleet.start()
        await runner.resume()
        stack.enter_context(_calm_collector())
        yield


@contextmanager
def _willing_to_switch() -> Iterator[None]:
    """Let the database's threads have the interpreter within half a millisecond, until the service ends.

    A thread asks for it after Python's 5 ms in vain, and asks anew whenever the event loop looks for input meanwhile. A
    loop that is busy in pieces of 1 to 4 ms can make a commit wait for seconds (measured by bench/write_steps.py).
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def _calm_collector() -> Iterator[None]:
    """Look for garbage seldom, and not among what was built at start, until the service ends.

    A full collection stops the event loop. With 500 nodes on a busy machine it did so for up to 0.8 s while they
    connected and for 1.7 s while lists were made, and took a third of the CPU of connecting; like this for 0.1 s
    (measured by bench/watch_fleet.py). Full ones still come, after millions of new objects: a lost connection leaves
    thousands that only they find.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _operation_id(route: APIRoute) -> str:
    return route.name
