"""What became of a benchmark client: how it stands, what it has logged, and the file it wrote, without its secrets."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import time
import zlib
from contextlib import suppress
from typing import Any, Dict, List, Optional, Set

from .answering import Refused
from .log_file import LogFile
from .main_process import MainProcess
from .masking import Masker, find_secrets
from .places import existing_launch, read_file

RESULT = os.path.join("work", "result.jsonl")
SAMPLES = "samples.jsonl"
FILE_LIMIT_BYTES = 512 * 2**20
SAMPLES_LIMIT_BYTES = 8 * 2**20
STEP_BYTES = 1 << 20
TEXTS = "generated_texts"
GAPS = "itls"
"""By far the largest array: a number for each token of each request."""
_HIDDEN = "*****"


def look_at_client(request: Dict[str, Any]) -> Dict[str, Any]:
    """Say whether the client runs, for how long it has, and what its log has grown by."""
    directory = existing_launch(request["launch"])
    process = MainProcess(directory).settled()
    log = LogFile(directory)
    offset = max(int(request["offset"]), 0)
    is_final = process["state"] not in ("pending", "running")
    data = log.read(offset, max(int(request["limit_bytes"]), 1), is_final=is_final)
    return {
        "state": process["state"],
        "exit_code": process["exit_code"],
        "ended_at": process["ended_at"],
        "started_at": _started_at(directory),
        "at": time.time(),
        "log": {
            "offset": offset,
            "b64": base64.b64encode(data).decode("ascii"),
            "next_offset": offset + len(data),
            "size": log.size(),
        },
    }


def read_client_result(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer with the client's file and its samples; `result` is None when it wrote none.

    The hash and size are those of the file as it lies here. What leaves the node has no generated text, nothing in the
    fields that `hidden_fields` names, stars for every secret, and no gaps between tokens if it would be too large.
    """
    directory = existing_launch(request["launch"])
    masker = Masker(find_secrets(directory) or ())
    samples = (read_file(os.path.join(directory, SAMPLES)) or b"")[:SAMPLES_LIMIT_BYTES]
    path = os.path.join(directory, RESULT)
    result: Optional[Dict[str, Any]] = None
    if os.path.isfile(path):
        if os.path.getsize(path) > FILE_LIMIT_BYTES:
            raise Refused("result_too_large", "%s has more than %d bytes" % (path, FILE_LIMIT_BYTES))
        content = read_file(path) or b""
        result = {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
        result.update(_cleared(content, masker, set(request["hidden_fields"]), int(request["limit_bytes"])))
    return {"result": result, "samples": _packed(masker.mask(samples))}


def hash_file(request: Dict[str, Any]) -> Dict[str, Any]:
    """Return the SHA-256 and the size of a regular file."""
    path = request["path"]
    digest = hashlib.sha256()
    size = 0
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Refused("file_unreadable", "%s is no file" % path)
        with open(path, "rb") as file:
            while True:
                block = file.read(STEP_BYTES)
                if not block:
                    return {"sha256": digest.hexdigest(), "size_bytes": size}
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise Refused("file_unreadable", "%s: %s" % (path, error.strerror)) from error


def _started_at(directory: str) -> Optional[float]:
    try:
        return os.stat(os.path.join(directory, "lock")).st_mtime
    except OSError:
        return None


def _cleared(content: bytes, masker: Masker, hidden: Set[str], limit_bytes: int) -> Dict[str, Any]:
    """Return what may leave the node and which arrays were left out; a line that is no JSON is only masked."""
    left_out: Set[str] = set()
    lines = [_cleared_line(line, hidden, left_out) for line in content.split(b"\n") if line.strip()]
    if sum(map(len, lines)) > limit_bytes:
        lines = [_without(line, GAPS, left_out) for line in lines]
    kept = masker.mask(b"".join(line + b"\n" for line in lines))
    if len(kept) > limit_bytes:
        raise Refused("result_too_large", "the result has %d bytes, more than %d" % (len(kept), limit_bytes))
    return {"content": _packed(kept), "left_out": sorted(left_out)}


def _cleared_line(line: bytes, hidden: Set[str], left_out: Set[str]) -> bytes:
    document = _parsed(line)
    if document is None:
        return line
    if document.pop(TEXTS, None) is not None:
        left_out.add(TEXTS)
    found: List[str] = []
    _hide(document, hidden, found)
    return Masker(found).mask(json.dumps(document).encode("ascii"))


def _without(line: bytes, name: str, left_out: Set[str]) -> bytes:
    document = _parsed(line)
    if document is None or document.pop(name, None) is None:
        return line
    left_out.add(name)
    return json.dumps(document).encode("ascii")


def _parsed(line: bytes) -> Optional[Dict[str, Any]]:
    with suppress(ValueError, RecursionError):
        document = json.loads(line)
        return document if isinstance(document, dict) else None
    return None


def _hide(value: Any, hidden: Set[str], found: List[str]) -> None:
    """Put stars into the fields that are named, wherever they are, and note what was in them."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            for name, inner in item.items():
                if name in hidden and inner not in (None, "", False):
                    found.append(inner if isinstance(inner, str) else json.dumps(inner))
                    item[name] = _HIDDEN
                else:
                    pending.append(inner)
        elif isinstance(item, list) and item and isinstance(item[0], (dict, list)):
            pending.extend(item)


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode("ascii")
