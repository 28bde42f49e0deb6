"""The root of the tree of errors."""

from collections.abc import Mapping
from typing import ClassVar


class VigilError(Exception):
    """The root: `code` is stable, `status` is the HTTP status, `remedy` says what to do.

    `headers` go with every answer that tells of it.
    """

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong inside Vigil"
    remedy: ClassVar[str] = "Look at the service's log for the traceback and report it."
    headers: ClassVar[Mapping[str, str]] = {}

    def __init__(self, detail: str, *, remedy: str | None = None, **context: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy_text = remedy or self.remedy
        self.context = context


class RequestRejected(VigilError):
    """The request is wrong; nothing was changed."""

    status = 400
