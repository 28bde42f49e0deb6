"""What the engine's /metrics says of its work: the few numbers we need, under the names they have in every version.

Facts: SGLang §7.3. Seen on a real 0.5.23: `prompt_tokens_total` and `generation_tokens_total` move only when a request
ends, `realtime_tokens_total` every 40 decode steps and at each prefill; a /health that is answered counts as a token.
With its scheduler stopped /metrics goes on answering, and everything below stands still, while
`num_aborted_requests_total`, `http_requests_total` and `process_cpu_seconds_total` move: those prove nothing and are
left out.
"""

import re
from dataclasses import dataclass
from math import isfinite


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """One scrape. Counters and request gauges are sums over data-parallel replicas; None where the version lacks them.

    `work_tokens`: tokens that the scheduler computed, as it goes (from 0.5.6 on); `decode_tokens`: those of them that
    were decoded. `prompt_tokens` and `generation_tokens`: those of finished requests. `token_usage`: the fullest
    replica's share of the KV pool.
    """

    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    work_tokens: float | None = None
    running_requests: float | None = None
    queued_requests: float | None = None
    used_tokens: float | None = None
    token_usage: float | None = None
    generation_rate: float | None = None
    accept_length: float | None = None
    accept_rate: float | None = None
    verify_calls: float | None = None
    decode_tokens: float | None = None

    @property
    def tokens(self) -> float | None:
        """Return all counted tokens in one number that only grows while the engine lives; None without any."""
        known = [count for count in (self.prompt_tokens, self.generation_tokens, self.work_tokens) if count is not None]
        return sum(known) if known else None

    @property
    def activity(self) -> tuple[float | None, ...]:
        """Return what only a scheduler or a finished request changes: two that differ prove work between them."""
        return self.tokens, self.used_tokens, self.running_requests, self.queued_requests, self.verify_calls


_FIELDS = {
    "prompt_tokens_total": "prompt_tokens",
    "generation_tokens_total": "generation_tokens",
    "realtime_tokens_total": "work_tokens",
    "num_running_reqs": "running_requests",
    "num_queue_reqs": "queued_requests",
    "num_used_tokens": "used_tokens",
    "token_usage": "token_usage",
    "gen_throughput": "generation_rate",
    "spec_accept_length": "accept_length",
    "spec_accept_rate": "accept_rate",
    "spec_verify_calls_total": "verify_calls",
}
METRICS_PATH = "/metrics"
METRIC_NAMES = tuple(f"sglang:{name}" for name in _FIELDS)
"""The samples that `parse_metrics` reads: of the hundred others nobody need send it any."""
_DECODED = 'mode="decode"'
"""Of the tokens that the scheduler computed, those that came of decoding; the others are of prefills."""
_LARGEST = frozenset({"token_usage", "accept_length", "accept_rate"})
"""Shares and means, of which a sum would be nonsense."""
_SAMPLE = re.compile(rf"^sglang:({'|'.join(_FIELDS)})(\{{.*\}})?[ \t]+(\S+)", re.MULTILINE)
_RANK = re.compile(r'\b(?:tp|pp|moe_ep|moe_dp|attn_tp|attn_cp)_rank="[^"]*",?')
"""With --enable-metrics-for-all-schedulers every rank of a replica tells the same story. With data-parallel attention
the first rank of a replica is not rank 0, so it is `dp_rank` that tells replicas apart."""


def parse_metrics(text: str) -> EngineCounters:
    """Return the numbers of a Prometheus text; names that are unknown or absent are no error."""
    replicas: dict[tuple[str, str], float] = {}
    for name, labels, written in _SAMPLE.findall(text):
        value = _number(written)
        if value is not None:
            replica = _RANK.sub("", labels)
            named = ["decode_tokens"] if name == "realtime_tokens_total" and _DECODED in labels else []
            for key in ((field, replica) for field in (_FIELDS[name], *named)):
                replicas[key] = max(replicas.get(key, value), value)
    found: dict[str, float] = {}
    for (field, _), value in replicas.items():
        found[field] = max(found.get(field, value), value) if field in _LARGEST else found.get(field, 0.0) + value
    return EngineCounters(**found)


def _number(written: str) -> float | None:
    """Return a sample's value; None for what an unset gauge or a broken line holds."""
    try:
        value = float(written)
    except ValueError:
        return None
    return value if isfinite(value) else None
