"""Requests for text: /generate and the two OpenAI forms, at once or as a stream. The text is made of stock words."""

from __future__ import annotations

import json
import time
import zlib
from typing import Any, Dict, Iterator, Optional, Tuple

from .channel import Message
from .frontend import Frontend
from .http_server import Request, Response, json_response

WORDS = [
    "the",
    "server",
    "waits",
    "and",
    "says",
    "what",
    "it",
    "sees",
    "while",
    "weights",
    "load",
    "and",
    "graphs",
    "form",
    "in",
    "the",
    "quiet",
    "of",
    "the",
    "rack",
]
DEFAULT_TOKENS = 128
CHARACTERS_PER_TOKEN = 4
EVENT_STREAM = "text/event-stream; charset=utf-8"

Prompt = Tuple[int, int, int]
"""Prompt tokens, tokens to make, and the seed of the text."""


class Completions:
    """Answers requests for text."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._spoken = frontend.plan.algorithm is not None

    def generate(self, request: Request) -> Response:
        """Answer the engine's own form; a stream repeats the whole text so far."""
        body, error = _body(request, "/generate")
        if error is not None:
            return error
        text = body.get("text")
        if text is None and not body.get("input_ids"):
            message = "Either text, input_ids or input_embeds should be provided."
            self._frontend.console.error(f"[http_server] Error: {message}")
            return json_response({"error": {"message": message}}, 400)
        parameters = body.get("sampling_params") or {}
        source = text if isinstance(text, str) else json.dumps(text if text is not None else body["input_ids"])
        prompt = _prompt(source, parameters.get("max_new_tokens"))
        ids = body.get("input_ids")
        if text is None and ids and isinstance(ids[0], int):
            prompt = (len(ids), *prompt[1:])
        refused = self._too_long(prompt)
        if refused is not None:
            return _refused_stream(refused) if body.get("stream") else json_response({"error": refused}, 400)
        if body.get("stream"):
            return Response(200, content_type=EVENT_STREAM, stream=_events(self._generate_steps(prompt)))
        *_, last = self._generate_steps(prompt)
        return json_response(last)

    def complete(self, request: Request) -> Response:
        """Answer an OpenAI completion."""
        body, error = _body(request, "/v1/completions", "prompt")
        if error is not None:
            return error
        prompt = _prompt(json.dumps(body["prompt"]), body.get("max_tokens"))
        return self._openai(body, prompt, is_chat=False)

    def chat(self, request: Request) -> Response:
        """Answer an OpenAI chat completion."""
        body, error = _body(request, "/v1/chat/completions", "messages")
        if error is not None:
            return error
        wanted = body.get("max_completion_tokens") or body.get("max_tokens")
        return self._openai(body, _prompt(json.dumps(body["messages"]), wanted), is_chat=True)

    def _too_long(self, prompt: Prompt) -> Optional[Dict[str, Any]]:
        """Return what is wrong with an input that does not fit the context, or None; answers may be longer here."""
        limit, tokens = self._frontend.plan.context_length, prompt[0]
        if tokens < limit:
            return None
        message = f"The input ({tokens} tokens) is longer than the model's context length ({limit} tokens)."
        self._frontend.console.error(f"[http_server] Error: {message}")
        return {"message": message, "type": "invalid_request_error", "code": 400, "retryable": False}

    def _generate_steps(self, prompt: Prompt) -> Iterator[Dict[str, Any]]:
        prompt_tokens, wanted, seed = prompt
        begun_at, produced = time.monotonic(), 0
        name = f"{seed:08x}{int(time.time() * 1e6):016x}"
        for message in self._frontend.generate(prompt_tokens, wanted):
            produced += message["tokens"]
            info = {
                "id": name,
                "finish_reason": _finish(message, produced),
                "prompt_tokens": prompt_tokens,
                "weight_version": "default",
                "completion_tokens": produced,
                "cached_tokens": 0,
                "e2e_latency": time.monotonic() - begun_at,
                **self._speculation(message, produced),
            }
            yield {"text": _text(seed, produced), "output_ids": list(range(produced)), "meta_info": info}

    def _speculation(self, message: Message, produced: int) -> Dict[str, Any]:
        steps = message.get("verify", 0)
        if not self._spoken or not steps:
            return {}
        drafted = int(self._frontend.plan.arguments.speculative_num_draft_tokens or 2)
        length = produced / steps
        return {
            "spec_verify_ct": steps,
            "spec_accept_length": length,
            "spec_accept_rate": (length - 1) / max(drafted - 1, 1),
        }

    def _openai(self, body: Dict[str, Any], prompt: Prompt, *, is_chat: bool) -> Response:
        name = f"{prompt[2]:08x}{int(time.time() * 1e6):016x}"
        head = {"id": name, "created": int(time.time()), "model": body.get("model", self._frontend.plan.served_name)}
        if body.get("stream"):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            chunks = self._openai_chunks(head, prompt, is_chat=is_chat, has_usage=usage)
            return Response(200, content_type=EVENT_STREAM, stream=_events(chunks))
        produced, last = 0, None
        for message in self._frontend.generate(prompt[0], prompt[1]):
            produced, last = produced + message["tokens"], message
        finish = _finish(last, produced) if last else None
        choice: Dict[str, Any] = {"index": 0}
        if is_chat:
            choice["message"] = {"role": "assistant", "content": _text(prompt[2], produced), "reasoning_content": None}
        else:
            choice["text"] = _text(prompt[2], produced)
        choice.update(logprobs=None, finish_reason=finish["type"] if finish else None, matched_stop=None)
        kind = "chat.completion" if is_chat else "text_completion"
        return json_response({**head, "object": kind, "choices": [choice], "usage": _usage(prompt[0], produced)})

    def _openai_chunks(
        self, head: Dict[str, Any], prompt: Prompt, *, is_chat: bool, has_usage: bool
    ) -> Iterator[Dict[str, Any]]:
        kind = "chat.completion.chunk" if is_chat else "text_completion"
        produced, said = 0, ""
        if is_chat:
            yield {**head, "object": kind, "choices": [_delta("", None, is_chat=True, role="assistant")]}
        for message in self._frontend.generate(prompt[0], prompt[1]):
            produced += message["tokens"]
            text = _text(prompt[2], produced)
            finish = _finish(message, produced)
            piece, said = text[len(said) :], text
            reason = finish["type"] if finish else None
            yield {**head, "object": kind, "choices": [_delta(piece, reason, is_chat=is_chat)]}
        if has_usage:
            yield {**head, "object": kind, "choices": [], "usage": _usage(prompt[0], produced)}


def _body(request: Request, path: str, *needed: str) -> Tuple[Dict[str, Any], Optional[Response]]:
    """Return the JSON body, and the answer to give instead when it is none or lacks a field."""
    try:
        body = json.loads(request.body)
    except ValueError as error:
        reason = {"type": "json_invalid", "loc": ("body", 1), "msg": "JSON decode error", "ctx": {"error": str(error)}}
        return {}, _refusal(path, reason)
    if not isinstance(body, dict):
        return {}, _refusal(
            path, {"type": "model_attributes_type", "loc": ("body",), "msg": "Input should be an object"}
        )
    for name in needed:
        if name not in body:
            return {}, _refusal(path, {"type": "missing", "loc": ("body", name), "msg": "Field required"})
    return body, None


def _refused_stream(error: Dict[str, Any]) -> Response:
    """Refuse within a stream, whose status has been sent by then: 200."""
    return Response(200, content_type=EVENT_STREAM, stream=_events(iter([{"error": error}])))


def _refusal(path: str, reason: Dict[str, Any]) -> Response:
    message = f"1 validation error:\n  {reason}\n\n    POST {path} [{reason}]"
    return json_response(
        {"object": "error", "message": message, "type": "Bad Request", "param": None, "code": 400}, 400
    )


def _prompt(source: str, wanted: Optional[int]) -> Prompt:
    tokens = max(len(source) // CHARACTERS_PER_TOKEN, 1)
    return tokens, max(int(wanted if wanted is not None else DEFAULT_TOKENS), 1), zlib.crc32(source.encode())


def _text(seed: int, tokens: int) -> str:
    return "".join(f" {WORDS[(seed + position * 7) % len(WORDS)]}" for position in range(tokens))


def _finish(message: Message, produced: int) -> Optional[Dict[str, Any]]:
    if not message["done"]:
        return None
    if message.get("is_aborted"):
        return {"type": "abort", "message": "Abort in waiting queue"}
    return {"type": "length", "length": produced}


def _usage(prompt_tokens: int, produced: int) -> Dict[str, Any]:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + produced,
        "completion_tokens": produced,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
    }


def _delta(text: str, finish: Optional[str], *, is_chat: bool, role: Optional[str] = None) -> Dict[str, Any]:
    rest = {"logprobs": None, "finish_reason": finish, "matched_stop": None}
    if not is_chat:
        return {"index": 0, "text": text, **rest}
    delta = {"reasoning_content": None, "content": text}
    return {"index": 0, "delta": {"role": role, **delta} if role else delta, **rest}


def _events(contents: Iterator[Dict[str, Any]]) -> Iterator[bytes]:
    try:
        for content in contents:
            yield b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"
    finally:
        close = getattr(contents, "close", None)
        if close is not None:
            close()
