"""What must be so before anybody is let in: safe settings, and a first admin."""

import sys

from service.access.exposure import is_loopback
from service.access.tokens import MIN_GIVEN_LENGTH, is_acceptable
from service.logs import EventLog
from service.operations.control import Control
from service.operations.granting import grant_first
from service.settings import Access, Settings

_events = EventLog("access")


class UnsafeSettings(Exception):
    """The settings would let in who does not belong; the message says which, and what to do."""


def require_safe(settings: Settings) -> None:
    """Raise UnsafeSettings if everybody in reach would be an admin, or the given token can be guessed."""
    if settings.access is Access.OPEN and not is_loopback(settings.host):
        raise UnsafeSettings(
            f"access is open and the service would listen on {settings.host}, which others can reach. "
            "Set VIGIL_ACCESS=token, or listen on 127.0.0.1."
        )
    given = settings.admin_token
    if given is not None and not is_acceptable(given.get_secret_value()):
        raise UnsafeSettings(
            f"VIGIL_ADMIN_TOKEN must have {MIN_GIVEN_LENGTH} to 200 visible ASCII characters; "
            "`openssl rand -hex 32` makes one."
        )


async def open_to_callers(control: Control) -> None:
    """Say who is answered; make the first admin's token if there never was a token, and show it on standard error.

    It goes past the log, which is kept and read by others: this is the only time that it can be seen.
    """
    settings = control.settings
    if settings.access is Access.OPEN:
        _events.warning("access_is_open", host=settings.host, everybody_on_this_machine_is="admin")
        return
    given = settings.admin_token.get_secret_value() if settings.admin_token is not None else None
    async with control.database.write() as session:
        token = await grant_first(session, given, at=control.now())
    if token is not None:
        sys.stderr.write(f"The first admin's token, shown this once: {token}\n")
        sys.stderr.flush()
