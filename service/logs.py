"""Log lines of the service itself: one event with its fields a line, never prose, never a secret."""

import logging
import sys


def configure(level: str) -> None:
    """Send the service's events to standard error as `time level event key=value …`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger("vigil")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


class EventLog:
    """Writes events such as `launch_moved launch_id=… before=starting after=ready`."""

    def __init__(self, area: str) -> None:
        self._logger = logging.getLogger(f"vigil.{area}")

    def info(self, event: str, **fields: object) -> None:
        """Write an event that is part of normal work."""
        self._logger.info(_line(event, fields))

    def warning(self, event: str, **fields: object) -> None:
        """Write an event that an operator may want to look at."""
        self._logger.warning(_line(event, fields))

    def failure(self, event: str, **fields: object) -> None:
        """Write an event with the traceback of the exception being handled."""
        self._logger.error(_line(event, fields), exc_info=True)  # noqa: LOG014  called where it is handled


def _line(event: str, fields: dict[str, object]) -> str:
    return " ".join([event, *(f"{name}={_quoted(value)}" for name, value in fields.items() if value is not None)])


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text) if any(character.isspace() or character == '"' for character in text) or not text else text
