"""What is asked of a node about benchmark clients, and what it answers."""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from service.clock import from_epoch
from service.remote.answers import log_slice
from service.remote.messages import LogSlice
from service.servers.observation import ProcessState

RESULT_FILE = "result.jsonl"
"""Where a client must write, relative to the directory that it runs in."""
RESULT_LIMIT_BYTES = 24 * 2**20
SAMPLES_LIMIT_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class ClientLook:
    """How a client stands; `age_s` is by the node's clock, None before it was started."""

    state: ProcessState
    exit_code: int | None
    started_at: datetime | None
    ended_at: datetime | None
    age_s: float | None
    log: LogSlice


@dataclass(frozen=True, slots=True)
class ClientFile:
    """What a client wrote, cleared of secrets and texts; `sha256` and `size_bytes` are of the file on the node."""

    content: bytes = field(repr=False)
    sha256: str
    size_bytes: int
    left_out: tuple[str, ...]
    """Arrays that stayed on the node."""


@dataclass(frozen=True, slots=True)
class ClientOutcome:
    """A client's file, None when it wrote none, and the samples that were taken beside it, a JSON object a line."""

    file: ClientFile | None
    samples: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class FileDigest:
    """What a file on a node holds, in one number."""

    sha256: str
    size_bytes: int


def client_look(answer: Mapping[str, Any]) -> ClientLook:
    """Return what `look_at_client` saw."""
    started_at = answer["started_at"]
    return ClientLook(
        state=ProcessState(answer["state"]),
        exit_code=None if answer["exit_code"] is None else int(answer["exit_code"]),
        started_at=None if started_at is None else from_epoch(started_at),
        ended_at=None if answer["ended_at"] is None else from_epoch(answer["ended_at"]),
        age_s=None if started_at is None else max(float(answer["at"]) - float(started_at), 0.0),
        log=log_slice(answer["log"]),
    )


def client_outcome(answer: Mapping[str, Any]) -> ClientOutcome:
    """Return what `read_client_result` read."""
    result = answer["result"]
    file = None
    if result is not None:
        file = ClientFile(
            content=_unpacked(result["content"], RESULT_LIMIT_BYTES),
            sha256=str(result["sha256"]),
            size_bytes=int(result["size_bytes"]),
            left_out=tuple(str(name) for name in result["left_out"]),
        )
    return ClientOutcome(file, _unpacked(answer["samples"], SAMPLES_LIMIT_BYTES))


def file_digest(answer: Mapping[str, Any]) -> FileDigest:
    """Return what `hash_file` computed."""
    return FileDigest(str(answer["sha256"]), int(answer["size_bytes"]))


def _unpacked(text: str, limit_bytes: int) -> bytes:
    """Return compressed bytes as they were; ValueError when they are more than was agreed, or are none."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(base64.b64decode(text, validate=True), limit_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"the bytes cannot be unpacked: {error}") from error
    if len(data) > limit_bytes or not unpacking.eof:
        raise ValueError(f"more than {limit_bytes} bytes")
    return data
