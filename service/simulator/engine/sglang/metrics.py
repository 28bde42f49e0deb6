"""The Prometheus text of /metrics: the version's names, labels and units, the subset that tells how a server fares."""

from __future__ import annotations

from typing import Any, Dict, List

from .frontend import Frontend


def metrics_text(frontend: Frontend) -> str:
    """Return the text."""
    plan = frontend.plan
    base = {"engine_type": "unified", "model_name": plan.served_name}
    scheduler = {**base, "moe_ep_rank": "0", "pp_rank": "0", "tp_rank": "0"}
    if plan.arguments.dp_size > 1:
        scheduler["dp_rank"] = "0"
    page = _Page()
    _gauges(page, frontend, scheduler)
    _startup(page, frontend, scheduler)
    _counters(page, frontend, base, scheduler)
    for (path, method, status), count in frontend.counters.http.items():
        labels = {"endpoint": path, "method": method, "status_code": str(status)}
        page.add("http_responses_total", "counter", labels, count)
    return page.text()


def _gauges(page: "_Page", frontend: Frontend, labels: Dict[str, str]) -> None:
    stats = frontend.stats
    gauges = {
        "num_running_reqs": stats.get("running", 0),
        "num_queue_reqs": stats.get("queued", 0),
        "num_used_tokens": stats.get("used", 0),
        "token_usage": stats.get("usage", 0.0),
        "gen_throughput": stats.get("throughput", 0.0),
        "cache_hit_rate": 0.0,
        "spec_accept_length": stats.get("accept_length", 0.0),
        "spec_accept_rate": stats.get("accept_rate", 0.0),
        "max_total_num_tokens": frontend.tokens,
        "utilization": 0.0,
    }
    if frontend.plan.version.has_new_texts:
        arguments = frontend.plan.arguments
        told = "accept_length" in stats
        gauges["spec_num_steps"] = arguments.speculative_num_steps or 0 if told else 0
        gauges["spec_num_draft_tokens"] = arguments.speculative_num_draft_tokens or 0 if told else 0
        gauges["context_len"] = frontend.plan.context_length
    for name, value in gauges.items():
        page.add(name, "gauge", labels, value)


def _startup(page: "_Page", frontend: Frontend, labels: Dict[str, str]) -> None:
    """Tell where the start's time went; 0.5.23 has other names than the versions before it."""
    timings = frontend.timings
    if not frontend.plan.version.is_newest:
        page.add("engine_startup_time", "gauge", labels, timings.get("tokenizer_e2e", 0.0))
        page.add("engine_load_weights_time", "gauge", labels, timings.get("load_weight", 0.0))
        return
    for phase in ("load_weight", "kv_cache_allocation", "scheduler_e2e", "tokenizer_e2e"):
        page.add("startup_time_seconds", "gauge", {**labels, "phase": phase}, timings.get(phase, 0.0))
    graph = timings.get("graph", 0.0)
    for phase in ("prefill", "decode", "target_verify", "draft_decode", "draft_extend"):
        mine = "target_verify" if frontend.plan.algorithm else "decode"
        page.add(
            "startup_cuda_graph_time_seconds", "gauge", {**labels, "phase": phase}, graph if phase == mine else 0.0
        )


def _counters(page: "_Page", frontend: Frontend, base: Dict[str, str], scheduler: Dict[str, str]) -> None:
    counters, stats = frontend.counters, frontend.stats
    tokenizer = {**base, "is_streaming": "false"} if frontend.plan.version.is_newest else base
    page.add("prompt_tokens_total", "counter", tokenizer, counters.prompt_tokens)
    page.add("generation_tokens_total", "counter", tokenizer, counters.generation_tokens)
    page.add("num_requests_total", "counter", tokenizer, counters.requests)
    page.add("num_aborted_requests_total", "counter", tokenizer, counters.aborted)
    page.add("num_retracted_requests_total", "counter", scheduler, stats.get("retracted", 0))
    for mode in ("prefill_compute", "decode"):
        value = stats.get("prefill_tokens" if mode == "prefill_compute" else "decode_tokens", 0)
        page.add("realtime_tokens_total", "counter", {**scheduler, "mode": mode}, value)
    if frontend.plan.version.has_new_texts and counters.verify_calls:
        page.add("spec_verify_calls_total", "counter", base, counters.verify_calls)
    for name, total in (
        ("time_to_first_token_seconds", counters.first_token_s),
        ("e2e_request_latency_seconds", counters.latency_s),
    ):
        page.add_histogram(name, tokenizer, total, counters.requests)


class _Page:
    """Collects samples under one TYPE line a name."""

    def __init__(self) -> None:
        self._samples: Dict[str, List[str]] = {}

    def add(self, name: str, kind: str, labels: Dict[str, str], value: Any) -> None:
        lines = self._lines(name, kind)
        lines.append(f"sglang:{name}{_labels(labels)} {float(value)}")

    def add_histogram(self, name: str, labels: Dict[str, str], total: float, count: int) -> None:
        """Add a histogram whose buckets are coarse: all observations count for the last."""
        lines = self._lines(name, "histogram")
        lines.append(f"sglang:{name}_sum{_labels(labels)} {total}")
        lines.append(f"sglang:{name}_bucket{_labels({**labels, 'le': '+Inf'})} {float(count)}")
        lines.append(f"sglang:{name}_count{_labels(labels)} {float(count)}")

    def text(self) -> str:
        return "".join(line + "\n" for lines in self._samples.values() for line in lines)

    def _lines(self, name: str, kind: str) -> List[str]:
        head = [f"# HELP sglang:{name} {name.replace('_', ' ').capitalize()}.", f"# TYPE sglang:{name} {kind}"]
        return self._samples.setdefault(name, head)


def _labels(labels: Dict[str, str]) -> str:
    pairs = (f'{name}="{_escape(value)}"' for name, value in sorted(labels.items()))
    return "{" + ",".join(pairs) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
