"""One request of the benchmark client: sent, its stream read, its times taken as the real client takes them."""

from __future__ import annotations

import json
import time
from http.client import HTTPConnection, HTTPException
from typing import Any, Dict, List, NamedTuple, Tuple, Union

Prompt = Union[List[int], str, List[Dict[str, Any]]]
PATIENCE_S = 6 * 3600
HTTP_OK = 200


class Address(NamedTuple):
    """Where the server is, and the headers that every request to it needs."""

    host: str
    port: int
    headers: Dict[str, str]


class Row(NamedTuple):
    """One prompt with its lengths in tokens."""

    prompt: Prompt
    prompt_tokens: int
    output_tokens: int


class Outcome:
    """What came of one request; times in seconds."""

    def __init__(self, row: Row) -> None:
        self.asked_tokens = row.prompt_tokens
        self.prompt_tokens = row.prompt_tokens
        self.output_tokens = 0
        self.latency_s = 0.0
        self.first_s = 0.0
        self.gaps_s: List[float] = []
        self.text = ""
        self.error = ""
        self.cached_tokens = 0
        self.is_good = False


def ask(address: Address, method: str, path: str, body: bytes = b"", *, patience_s: float = 60) -> Tuple[int, bytes]:
    """Return status and body of a plain request; 0 and nothing when the server cannot be reached."""
    connection = HTTPConnection(address.host, address.port, timeout=patience_s)
    try:
        connection.request(method, path, body, address.headers)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, HTTPException):
        return 0, b""
    finally:
        connection.close()


def generate(address: Address, row: Row, *, model: str, is_chat: bool, ignores_end: bool) -> Outcome:
    """Ask for one answer as a stream; what goes wrong stands in the outcome's `error`."""
    outcome = Outcome(row)
    path, body = _chat_body(row, model) if is_chat else _native_body(row, ignores_end=ignores_end)
    connection = HTTPConnection(address.host, address.port, timeout=PATIENCE_S)
    began = time.perf_counter()
    try:
        headers = {**address.headers, "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body).encode(), headers)
        response = connection.getresponse()
        if response.status == HTTP_OK:
            _read(response, outcome, began, is_chat=is_chat)
            if not outcome.text:  # as the real client does: it takes a refusal in the stream for an answer
                outcome.output_tokens = row.output_tokens
        else:
            outcome.error = f"{response.reason}: {response.read().decode('utf-8', 'replace')}"
    except (OSError, HTTPException, ValueError) as error:
        outcome.error = f"Traceback (most recent call last):\n{type(error).__name__}: {error}\n"
        print(f"output.error={outcome.error!r}", flush=True)
    finally:
        connection.close()
    return outcome


def _native_body(row: Row, *, ignores_end: bool) -> Tuple[str, Dict[str, Any]]:
    parameters = {"temperature": 0.0, "max_new_tokens": row.output_tokens, "ignore_eos": ignores_end}
    name = "text" if isinstance(row.prompt, str) else "input_ids"
    return "/generate", {name: row.prompt, "sampling_params": parameters, "stream": True}


def _chat_body(row: Row, model: str) -> Tuple[str, Dict[str, Any]]:
    body: Dict[str, Any] = {"model": model, "messages": row.prompt, "stream": True}
    body.update(max_completion_tokens=row.output_tokens, stream_options={"include_usage": True})
    return "/v1/chat/completions", body


def _read(response: Any, outcome: Outcome, began: float, *, is_chat: bool) -> None:
    last = began
    for line in response:
        data = line.strip()
        if data == b"data: [DONE]":
            outcome.is_good = True
        if not data.startswith(b"data: ") or outcome.is_good:
            continue
        produced = _take(json.loads(data[6:]), outcome, is_chat=is_chat)
        now = time.perf_counter()
        outcome.latency_s = now - began
        if produced <= 0:
            continue
        if outcome.first_s == 0.0:
            outcome.first_s = now - began
        else:
            outcome.gaps_s += [(now - last) / produced] * produced
        last = now
    if not outcome.is_good:
        raise HTTPException("Response payload is not completed")


def _take(said: Dict[str, Any], outcome: Outcome, *, is_chat: bool) -> int:
    """Take one event in and return how many tokens it brought."""
    before = outcome.output_tokens
    if "error" in said:
        return 0
    if not is_chat:
        outcome.text = said["text"]
        outcome.output_tokens = said["meta_info"]["completion_tokens"]
        outcome.prompt_tokens = said["meta_info"]["prompt_tokens"]
        outcome.cached_tokens = said["meta_info"]["cached_tokens"]
        return int(outcome.output_tokens - before)
    usage = said.get("usage")
    if usage:
        outcome.output_tokens = usage["completion_tokens"]
        outcome.prompt_tokens = usage["prompt_tokens"]
        return 0
    piece = "".join(choice["delta"]["content"] or "" for choice in said["choices"])
    outcome.text += piece
    outcome.output_tokens += 1 if piece else 0
    return int(outcome.output_tokens - before)
