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

from service.errors.conflicts import (
    AlreadyImported,
    CheckpointUnsound,
    Conflict,
    DestinationExists,
    GpusUnavailable,
    GpuTaken,
    HostKeyMismatch,
    IllegalMove,
    InUse,
    LeftoversRemain,
    NameTaken,
    NodeDraining,
    NoRoom,
    NothingToRename,
    OperationInProgress,
    Overtaken,
    PortTaken,
    PreflightFailed,
    RenamingUnknown,
    WaitPointless,
)
from service.errors.remote import (
    AuthenticationRefused,
    ChannelRefused,
    CredentialUnusable,
    HostKeyChanged,
    HostKeyUntrusted,
    NodeUnreachable,
    Permanent,
    RemoteCommandFailed,
    RemoteError,
    RemoteTimeout,
    Transient,
)
from service.errors.requests import (
    BodyTooSlow,
    Forbidden,
    IdempotencyKeyReused,
    InvalidInput,
    NotFound,
    ResultFileRejected,
    SecretUnavailable,
    TargetRefused,
    TooLarge,
    TooManyStreams,
    Unauthenticated,
    WaitTimedOut,
)
from service.errors.root import (
    RequestRejected,
    VigilError,
)

__all__ = [
    "AlreadyImported",
    "AuthenticationRefused",
    "BodyTooSlow",
    "ChannelRefused",
    "CheckpointUnsound",
    "Conflict",
    "CredentialUnusable",
    "DestinationExists",
    "Forbidden",
    "GpuTaken",
    "GpusUnavailable",
    "HostKeyChanged",
    "HostKeyMismatch",
    "HostKeyUntrusted",
    "IdempotencyKeyReused",
    "IllegalMove",
    "InUse",
    "InvalidInput",
    "LeftoversRemain",
    "NameTaken",
    "NoRoom",
    "NodeDraining",
    "NodeUnreachable",
    "NotFound",
    "NothingToRename",
    "OperationInProgress",
    "Overtaken",
    "Permanent",
    "PortTaken",
    "PreflightFailed",
    "RemoteCommandFailed",
    "RemoteError",
    "RemoteTimeout",
    "RenamingUnknown",
    "RequestRejected",
    "ResultFileRejected",
    "SecretUnavailable",
    "TargetRefused",
    "TooLarge",
    "TooManyStreams",
    "Transient",
    "Unauthenticated",
    "VigilError",
    "WaitPointless",
    "WaitTimedOut",
]
