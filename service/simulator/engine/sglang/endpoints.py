"""What the engine answers on each path, by version, and who may ask."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Tuple

from .completions import Completions
from .frontend import UP, Frontend
from .http_server import Request, Response, json_response
from .metrics import metrics_text

OPEN_PREFIXES = ("/health", "/metrics")
"""Paths that need no key; from 0.5.23 /ready as well."""
INTERNAL_ARGUMENTS = ("config", "help")

Route = Callable[[Request], Response]


class Endpoints:
    """The routes of one server."""

    def __init__(self, frontend: Frontend, launch_command: str) -> None:
        self._frontend = frontend
        self._plan = frontend.plan
        self._launch_command = launch_command
        self._completions = Completions(frontend)
        self._routes = self._table()

    def answer(self, request: Request) -> Response:
        """Answer one request; never raises."""
        if not self._is_allowed(request):
            return json_response({"error": "Unauthorized"}, 401)
        route = self._routes.get((request.method, request.path))
        if route is not None:
            return route(request)
        if any(path == request.path for _, path in self._routes):
            return json_response({"detail": "Method Not Allowed"}, 405)
        return json_response({"detail": "Not Found"}, 404)

    def _is_allowed(self, request: Request) -> bool:
        keys = [key for key in (self._plan.arguments.api_key, self._plan.arguments.admin_api_key) if key]
        if not self._plan.arguments.api_key or request.path.startswith(OPEN_PREFIXES):
            return True
        if request.path.startswith("/ready") and self._plan.version.is_newest:
            return True
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        return scheme == "Bearer" and key in keys

    def _table(self) -> Dict[Tuple[str, str], Route]:
        completions = self._completions
        table: Dict[Tuple[str, str], Route] = {
            ("GET", "/"): lambda _: json_response("SGLang is running"),
            ("GET", "/health"): self._health,
            ("GET", "/health_generate"): self._health,
            ("GET", "/ping"): self._ping,
            ("GET", "/model_info"): self._model_info,
            ("GET", "/get_model_info"): self._deprecated("/get_model_info", "/model_info", self._model_info),
            ("GET", "/server_info"): self._server_info,
            ("GET", "/get_server_info"): self._deprecated("/get_server_info", "/server_info", self._server_info),
            ("GET", "/v1/models"): self._models,
            ("GET", "/v1/loads"): self._loads,
            ("GET", "/flush_cache"): self._flush_cache,
            ("POST", "/flush_cache"): self._flush_cache,
            ("POST", "/freeze_gc"): lambda _: Response(200, b"Garbage collection frozen.\n"),
            ("POST", "/abort_request"): self._abort,
            ("POST", "/generate"): completions.generate,
            ("POST", "/v1/completions"): completions.complete,
            ("POST", "/v1/chat/completions"): completions.chat,
        }
        if self._plan.version.is_newest:
            table["GET", "/ready"] = self._ready
        else:
            table["GET", "/get_load"] = self._load
        if self._plan.arguments.enable_metrics:
            table["GET", "/metrics"] = self._metrics
        return table

    def _deprecated(self, old: str, new: str, route: Route) -> Route:
        def answer(request: Request) -> Response:
            self._frontend.console.warning(
                f"Endpoint '{old}' is deprecated and will be removed in a future version. Please use '{new}' instead."
            )
            return route(request)

        return answer

    def _health(self, request: Request) -> Response:
        return Response(200 if self._frontend.is_healthy(request.path) else 503)

    def _ready(self, _: Request) -> Response:
        return Response(200 if self._frontend.status == UP and not self._frontend.is_exiting else 503)

    def _ping(self, request: Request) -> Response:
        return self._ready(request) if self._plan.version.is_newest else Response(200)

    def _metrics(self, _: Request) -> Response:
        text = metrics_text(self._frontend).encode()
        return Response(200, text, "text/plain; version=0.0.4; charset=utf-8")

    def _model_info(self, _: Request) -> Response:
        a, model = self._plan.arguments, self._plan.model
        info: Dict[str, Any] = {
            "model_path": a.model_path,
            "served_model_name": self._plan.served_name,
            "tokenizer_path": a.tokenizer_path,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": a.weight_version,
            "load_format": a.load_format,
            "reasoning_parser": a.reasoning_parser,
            "tool_call_parser": a.tool_call_parser,
            "disaggregation_mode": a.disaggregation_mode,
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": model.config.get("model_type"),
            "architectures": model.config.get("architectures"),
        }
        return json_response(info)

    def _server_info(self, _: Request) -> Response:
        """Tell everything, keys in clear as the real engine does; asks the scheduler and waits for it without limit."""
        state = self._frontend.ask("state")["state"]
        arguments = {
            name: value for name, value in vars(self._plan.arguments).items() if name not in INTERNAL_ARGUMENTS
        }
        info: Dict[str, Any] = {**arguments}
        if self._plan.version.is_newest:
            info["launch_command"] = self._launch_command
        info.update(
            status="ready",
            max_total_num_tokens=self._frontend.tokens,
            max_req_input_len=self._plan.context_length - 6,
            startup_time={k: v for k, v in self._frontend.timings.items() if k != "graph"},
            internal_states=[{**arguments, **state}],
            version=self._plan.version.text,
        )
        return json_response(info)

    def _models(self, _: Request) -> Response:
        model = {
            "id": self._plan.served_name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": self._plan.served_name,
            "parent": None,
            "max_model_len": self._plan.context_length,
        }
        return json_response({"object": "list", "data": [model]})

    def _loads(self, _: Request) -> Response:
        stats = self._frontend.stats
        load = {
            "timestamp": time.time(),
            "dp_rank": 0,
            "num_running_reqs": stats.get("running", 0),
            "num_waiting_reqs": stats.get("queued", 0),
            "num_used_tokens": stats.get("used", 0),
            "max_total_num_tokens": self._frontend.tokens,
            "token_usage": stats.get("usage", 0.0),
            "gen_throughput": stats.get("throughput", 0.0),
        }
        count = len(self._plan.ranks())
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        return json_response(
            {"timestamp": stamp, "version": self._plan.version.text, "num_accelerators": count, "loads": [load]}
        )

    def _load(self, _: Request) -> Response:
        stats = self._frontend.stats
        waiting, running = stats.get("queued", 0), stats.get("running", 0)
        load = {
            "dp_rank": 0,
            "num_reqs": running + waiting,
            "num_waiting_reqs": waiting,
            "num_tokens": stats.get("used", 0),
        }
        return json_response([load])

    def _flush_cache(self, _: Request) -> Response:
        is_flushed = self._frontend.ask("flush")["flushed"]
        text = (
            b"Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, "
            b"the operation will not be performed.)\n"
        )
        return Response(200 if is_flushed else 400, text)

    def _abort(self, _: Request) -> Response:
        self._frontend.abort_all()
        return Response(200)
