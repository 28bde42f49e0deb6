"""Every error that Vigil tells a caller: a stable code, an HTTP status and a remedy.

VigilError
├── RequestRejected             the request itself is wrong; nothing was changed
│   ├── Unauthenticated         no token, or one that is unknown, revoked or expired
│   ├── Forbidden               the token's role does not suffice
│   ├── TooLarge                the body is longer than is taken
│   ├── BodyTooSlow             the body did not come in time
│   ├── TooManyStreams          waits and streams at once
│   ├── InvalidInput            a field breaks a rule
│   ├── TargetRefused           a webhook's address is one that Vigil does not call
│   ├── NotFound                no such node, profile, server, launch or operation
│   ├── Conflict                it would contradict what is there
│   │   ├── NameTaken
│   │   ├── InUse               a node or profile that servers still use
│   │   ├── IllegalMove         the server's state does not allow it
│   │   ├── GpuTaken
│   │   ├── PortTaken
│   │   ├── GpusUnavailable     no set of GPUs satisfies the request
│   │   ├── OperationInProgress
│   │   ├── Overtaken           somebody else changed it at the same moment
│   │   ├── NodeDraining        the node takes no new launches
│   │   ├── LeftoversRemain     the last launch is not proven gone
│   │   ├── PreflightFailed     a check says that the launch would fail
│   │   ├── HostKeyMismatch     the confirmed fingerprint is not the one offered
│   │   ├── NothingToRename     the engine takes every name of this draft as it is
│   │   ├── RenamingUnknown     it is not known which names would mend this draft
│   │   ├── CheckpointUnsound   a file of it is cut off, garbled, or changed while it was copied
│   │   ├── DestinationExists   nothing is written over
│   │   ├── NoRoom              the node's disk has no room for the copy
│   │   ├── AlreadyImported     the result file is there as a run
│   │   └── WaitPointless       the awaited state will not come by itself
│   ├── ResultFileRejected      what was sent is no benchmark result
│   ├── WaitTimedOut            the awaited state did not come in time
│   └── IdempotencyKeyReused    the same key with another body
├── RemoteError                 the node, or the way to it
│   ├── Transient               trying again may help
│   │   ├── NodeUnreachable
│   │   ├── RemoteTimeout
│   │   └── ChannelRefused
│   └── Permanent               trying again cannot help until somebody acts
│       ├── HostKeyUntrusted
│       ├── HostKeyChanged
│       ├── AuthenticationRefused
│       ├── CredentialUnusable  the key file is absent, readable by others, encrypted or not a key
│       └── RemoteCommandFailed
└── SecretUnavailable           a referenced secret cannot be read
"""

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


class Conflict(RequestRejected):
    """The request contradicts what is there."""

    status = 409


class NameTaken(Conflict):
    """Another resource of the same kind has this name."""

    code = "name_taken"
    title = "This name is taken"
    remedy = "Choose another name, or change the existing resource."


class InUse(Conflict):
    """A resource cannot be removed while others depend on it."""

    code = "in_use"
    title = "It is still in use"
    remedy = "Remove what uses it first."


class IllegalMove(Conflict):
    """The server's state has no such move."""

    code = "illegal_move"
    title = "The server's state does not allow this"
    remedy = "Look at the server's state, and stop or launch it first."


class GpuTaken(Conflict):
    """A wanted GPU is claimed by another server."""

    code = "gpu_taken"
    title = "Another server holds a GPU that this one wants"
    remedy = "Stop the holder, or give this server other GPUs."


class PortTaken(Conflict):
    """The wanted port is claimed by another server of the node."""

    code = "port_taken"
    title = "Another server holds this port"
    remedy = "Stop the holder, or give this server another port."


class GpusUnavailable(Conflict):
    """No set of GPUs satisfies the request; the detail says why for each."""

    code = "gpus_unavailable"
    title = "The node has no GPUs for this"
    remedy = "Free GPUs, ask for fewer, or refresh the node if its picture is old."


class OperationInProgress(Conflict):
    """Another operation on the same server has not ended."""

    code = "operation_in_progress"
    title = "Another operation on this server is under way"
    remedy = "Wait for it, or cancel it."


class Overtaken(Conflict):
    """Somebody else changed it at the same moment."""

    code = "overtaken"
    title = "Somebody else changed it at the same moment"
    remedy = "Look at the present state and decide again."


class NodeDraining(Conflict):
    """The node takes no new launches."""

    code = "node_draining"
    title = "The node is draining"
    remedy = "Choose another node, or POST /nodes/{node}/undrain."


class LeftoversRemain(Conflict):
    """The last launch of the server is not proven gone."""

    code = "leftovers_remain"
    title = "The last launch has left something behind"
    remedy = "POST /servers/{server}/stop to sweep and prove again; the launch says what is left."


class PreflightFailed(Conflict):
    """A check before the launch failed and the request did not override it; `context['preflight']` has them all."""

    code = "preflight_failed"
    title = "A check before the launch failed"
    remedy = "Mend what the failed checks name, or name their codes in `override` if you know better."


class HostKeyMismatch(Conflict):
    """The fingerprint that was confirmed is not the one the node offers."""

    code = "host_key_mismatch"
    title = "The fingerprint does not match the node's key"
    remedy = "Compare with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the node's console."


class NothingToRename(Conflict):
    """The engine takes every name of the draft as it is."""

    code = "nothing_to_rename"
    title = "There is nothing to rename"
    remedy = "Use the draft as it is with this version of the engine."


class RenamingUnknown(Conflict):
    """The draft cannot be judged, or no change of names mends it; the detail says which."""

    code = "renaming_unknown"
    title = "Which names would mend this draft is not known"
    remedy = "Export the draft again, or give the renames yourself: old name to new name."


class CheckpointUnsound(Conflict):
    """A file of the checkpoint is cut off, garbled, or changed while it was copied."""

    code = "checkpoint_unsound"
    title = "The checkpoint is not sound"
    remedy = "Copy or download the file that the detail names again."


class DestinationExists(Conflict):
    """Something has the name of the new directory already."""

    code = "destination_exists"
    title = "The destination exists already"
    remedy = "Give a new name: nothing is ever written over."


class NoRoom(Conflict):
    """The node's disk has no room for the copy."""

    code = "no_room"
    title = "There is no room on the node's disk"
    remedy = "Make room, or give a destination on another disk of the node."


class AlreadyImported(Conflict):
    """The same result file was imported for the same profile; `context['run']` is the run."""

    code = "already_imported"
    title = "This file was imported before"
    remedy = "Use the run that the context names: counted twice, a measurement would seem surer than it is."


class WaitPointless(Conflict):
    """The awaited state will not come by itself."""

    code = "wait_pointless"
    title = "Waiting is pointless"
    remedy = "Read the detail; launch, stop or mend the server."


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


class RemoteError(VigilError):
    """The node, or the way to it."""

    status = 502


class Transient(RemoteError):
    """Trying again may help."""


class Permanent(RemoteError):
    """Trying again cannot help until somebody acts."""


class NodeUnreachable(Transient):
    """No connection to the node's SSH port, or it broke."""

    code = "node_unreachable"
    title = "The node cannot be reached"
    remedy = "Check address, port, firewall and that sshd runs."


class RemoteTimeout(Transient):
    """The node did not answer within the deadline."""

    code = "remote_timeout"
    status = 504
    title = "The node did not answer in time"
    remedy = "Look at the node's load; try again."


class ChannelRefused(Transient):
    """The node's sshd refused one more session (MaxSessions) or the forwarding of a port."""

    code = "channel_refused"
    title = "The node's sshd refused a channel"
    remedy = "Allow AllowTcpForwarding and MaxSessions 10 or more for this user."


class HostKeyUntrusted(Permanent):
    """The node's host key is not confirmed yet."""

    code = "host_key_untrusted"
    status = 409
    title = "The node's host key is not confirmed"
    remedy = "Compare the fingerprint with the node's own, then POST /nodes/{node}/trust."


class HostKeyChanged(Permanent):
    """The node offers another key than the pinned one: a rebuilt node, or somebody in between."""

    code = "host_key_changed"
    title = "The node's host key has changed"
    remedy = "Find out why. If the node was rebuilt, confirm its new key with POST /nodes/{node}/trust."


class AuthenticationRefused(Permanent):
    """The node refused the user's key."""

    code = "authentication_refused"
    title = "The node refused the login"
    remedy = "Put the public key into the user's authorized_keys, or mend user and key path; then refresh the node."


class CredentialUnusable(Permanent):
    """The key file or agent cannot be used."""

    code = "credential_unusable"
    status = 422
    title = "The SSH credential cannot be used"
    remedy = "Name a private key file with mode 600 that has no passphrase, or use the agent."


class RemoteCommandFailed(Permanent):
    """A command on the node ended with an error."""

    code = "remote_command_failed"
    title = "A command on the node failed"
    remedy = "Read the detail: it holds what the node said."


class SecretUnavailable(VigilError):
    """A secret that a profile refers to cannot be read."""

    code = "secret_unavailable"
    status = 422
    title = "A secret that the profile refers to cannot be read"
    remedy = "Set the environment variable or create the file (mode 600) that the profile names."
