"""Requests that are wrong in themselves, or cannot be met by who makes them."""

from collections.abc import Mapping
from typing import ClassVar

from service.errors.root import RequestRejected, VigilError


class Unauthenticated(RequestRejected):
    """There is no token, or one that is unknown, revoked or expired."""

    code = "unauthenticated"
    status = 401
    title = "A valid token is needed"
    remedy = "Send `Authorization: Bearer vgl_…`; an admin makes tokens with POST /tokens or `vigil token create`."
    headers: ClassVar[Mapping[str, str]] = {"WWW-Authenticate": 'Bearer realm="vigil"'}


class Forbidden(RequestRejected):
    """The caller may not do this; `context['needed_role']` says who may."""

    code = "forbidden"
    status = 403
    title = "The caller may not do this"
    remedy = "Use a token of the role that the detail names."


class TooLarge(RequestRejected):
    """The body of the request is longer than is taken; the rest of it is not read."""

    code = "too_large"
    status = 413
    title = "The request is too large"
    remedy = "Send less at once; the limit is the setting VIGIL_MAX_BODY_BYTES."
    headers: ClassVar[Mapping[str, str]] = {"Connection": "close"}


class BodyTooSlow(RequestRejected):
    """The body of the request did not arrive in time."""

    code = "body_too_slow"
    status = 408
    title = "The request did not arrive in time"
    remedy = "Send it again over a better connection; the limit is the setting VIGIL_BODY_DEADLINE_S."
    headers: ClassVar[Mapping[str, str]] = {"Connection": "close"}


class TooManyStreams(RequestRejected):
    """The caller, or all together, hold as many waits and streams as there may be."""

    code = "too_many_streams"
    status = 429
    title = "Too many waits and streams at once"
    remedy = "Close those that nobody reads, and try again."
    headers: ClassVar[Mapping[str, str]] = {"Retry-After": "5"}


class InvalidInput(RequestRejected):
    """A field breaks a rule; `context['errors']` lists each with its place."""

    code = "invalid_input"
    status = 422
    title = "The request does not fit its schema"
    remedy = "Correct the fields named in errors and send it again."


class TargetRefused(RequestRejected):
    """The address of a webhook is not an http or https one, or stands for a machine that Vigil does not call."""

    code = "target_refused"
    status = 422
    title = "Vigil does not call this address"
    remedy = "Give the address of a receiver elsewhere, or allow its network in VIGIL_WEBHOOK_NETWORKS."


class NotFound(RequestRejected):
    """No resource has this name or id."""

    code = "not_found"
    status = 404
    title = "There is nothing with this name or id"
    remedy = "List the resource to see what exists."


class ResultFileRejected(RequestRejected):
    """What was sent is no benchmark result that can be read; `context['reason']` says why in one word."""

    code = "result_file_rejected"
    status = 422
    title = "This is not a benchmark result that can be read"
    remedy = "Import a result file of a tool that docs/benchmarks.md names."


class WaitTimedOut(RequestRejected):
    """The awaited state did not come in time; nothing was changed."""

    code = "wait_timed_out"
    status = 504
    title = "The time is up"
    remedy = "Wait again: the server goes on as before."


class IdempotencyKeyReused(RequestRejected):
    """The key was used before with another request."""

    code = "idempotency_key_reused"
    status = 422
    title = "This Idempotency-Key belongs to another request"
    remedy = "Use a new key for a new request."


class SecretUnavailable(VigilError):
    """A secret that a profile refers to cannot be read."""

    code = "secret_unavailable"
    status = 422
    title = "A secret that the profile refers to cannot be read"
    remedy = "Set the environment variable or create the file (mode 600) that the profile names."
