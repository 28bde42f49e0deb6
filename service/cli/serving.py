"""Runs the service under uvicorn: one worker, one event loop."""

import uvicorn

from service import logs
from service.app import create_app
from service.operations.opening import require_safe
from service.settings import Settings

GRACE_S = 5
MAX_HEADER_BYTES = 32_768
"""All headers of a request together, which bounds their number, too; more is answered with 400."""


def serve_until_ended(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. One process alone may own the database and the nodes' connections.

    UnsafeSettings where everybody in reach would be let in.
    """
    require_safe(settings)
    logs.configure(settings.log_level)
    server_of(settings).run()


def server_of(settings: Settings) -> uvicorn.Server:
    """Return an uvicorn server that is not running yet."""
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    return uvicorn.Server(config)
