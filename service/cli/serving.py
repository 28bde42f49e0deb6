"""Runs the service under uvicorn: one worker, one event loop."""

import socket

import uvicorn
from fastapi import FastAPI

from service import logs
from service.api.dependencies import Parts
from service.app import create_app
from service.cli.wire import protocol_with
from service.db.holding import require_free
from service.operations.opening import require_safe
from service.settings import Settings

GRACE_S = 5
MAX_HEADER_BYTES = 32_768
"""All headers of a request together, which bounds their number, too; more is answered with 400."""


def serve_until_ended(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. One process alone may own the database and the nodes' connections.

    UnsafeSettings where everybody in reach would be let in, DatabaseInUse where another service runs.
    """
    require_safe(settings)
    require_free(settings.resolved_database_url())
    logs.configure(settings.log_level)
    server_of(settings).run()


def server_of(settings: Settings) -> uvicorn.Server:
    """Return an uvicorn server that is not running yet."""
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
        http=protocol_with(settings.head_deadline_s),
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    return _Server(config, app)


class _Server(uvicorn.Server):
    """Lets readers of events go before it waits for requests to end: theirs never would."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the rest as uvicorn does."""
        parts = getattr(self._app.state, "parts", None)
        if isinstance(parts, Parts):
            parts.control.feed.end()
        await super().shutdown(sockets)
