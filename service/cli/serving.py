"""Runs the service under uvicorn: one worker, one event loop."""

import uvicorn

from service import logs
from service.app import create_app
from service.settings import Settings

GRACE_S = 5


def serve_until_ended(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. One process alone may own the database and the nodes' connections."""
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
    )
    return uvicorn.Server(config)
