"""Which flag was meant: by the spelling, by the words, and by what other engines and other releases call it."""

from collections.abc import Collection, Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache

SURE = 0.62
"""A likeness below this is chance."""
NEXT_BEST = 0.07
WORD_SURE = 0.7
LIMIT = 2

KNOWN_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "num-speculative-tokens": ("speculative-num-draft-tokens",),
    "speculative-model": ("speculative-draft-model-path",),
    "speculative-config": ("speculative-algorithm",),
    "speculative-method": ("speculative-algorithm",),
    "max-model-len": ("context-length",),
    "max-seq-len": ("context-length",),
    "max-sequence-length": ("context-length",),
    "max-context-length": ("context-length",),
    "ctx-size": ("context-length",),
    "gpu-memory-utilization": ("mem-fraction-static",),
    "gpu-memory-fraction": ("mem-fraction-static",),
    "max-num-seqs": ("max-running-requests",),
    "max-concurrency": ("max-running-requests",),
    "max-batch-size": ("max-running-requests",),
    "max-num-batched-tokens": ("chunked-prefill-size",),
    "enable-chunked-prefill": ("chunked-prefill-size",),
    "enforce-eager": ("cuda-graph-backend-decode", "disable-cuda-graph"),
    "no-enable-prefix-caching": ("disable-radix-cache",),
    "block-size": ("page-size",),
    "num-gpus": ("tp-size",),
    "swap-space": ("hicache-size",),
    "gpu-ids": ("base-gpu-id",),
    "model-name": ("served-model-name",),
    "hf-overrides": ("json-model-override-args",),
    "rope-scaling": ("json-model-override-args",),
    "enable-auto-tool-choice": ("tool-call-parser",),
    "tool-parser": ("tool-call-parser",),
    "enable-reasoning": ("reasoning-parser",),
    "max-loras": ("max-loras-per-batch",),
    "lora-modules": ("lora-paths",),
    "guided-decoding-backend": ("grammar-backend",),
    "disable-log-requests": ("log-requests",),
    "seed": ("random-seed",),
    "tokenizer": ("tokenizer-path",),
    "moe-backend": ("moe-runner-backend",),
    "cuda-graph-max-bs": ("cuda-graph-max-bs-decode", "cuda-graph-max-bs"),
    "cuda-graph-max-bs-decode": ("cuda-graph-max-bs",),
    "cuda-graph-max-bs-prefill": ("piecewise-cuda-graph-max-tokens",),
    "cuda-graph-bs": ("cuda-graph-bs-decode", "cuda-graph-bs"),
    "cuda-graph-bs-decode": ("cuda-graph-bs",),
    "cuda-graph-backend-decode": ("disable-cuda-graph",),
    "cuda-graph-backend-prefill": ("disable-piecewise-cuda-graph", "disable-cuda-graph"),
    "enable-piecewise-cuda-graph": ("cuda-graph-backend-prefill", "enforce-piecewise-cuda-graph"),
    "disable-piecewise-cuda-graph": ("cuda-graph-backend-prefill",),
    "enforce-piecewise-cuda-graph": ("cuda-graph-backend-prefill", "enable-piecewise-cuda-graph"),
    "piecewise-cuda-graph-max-tokens": ("cuda-graph-max-bs-prefill",),
    "enable-ep-moe": ("ep-size",),
    "enable-deepep-moe": ("moe-a2a-backend",),
    "enable-flashinfer-moe": ("moe-runner-backend",),
    "enable-flashinfer-cutlass-moe": ("moe-runner-backend",),
    "enable-flashinfer-allreduce-fusion": ("flashinfer-allreduce-fusion-backend",),
    "attn-dp-size": ("enable-dp-attention",),
    "enable-dp-attention": ("attn-dp-size",),
    "smg-grpc-mode": ("grpc-mode",),
    "stream-output": ("incremental-streaming-output",),
    "hybrid-kvcache-ratio": ("swa-full-tokens-ratio",),
    "nsa-prefill-backend": ("dsa-prefill-backend",),
    "nsa-decode-backend": ("dsa-decode-backend",),
    "mamba-scheduler-strategy": ("mamba-radix-cache-strategy",),
    "tp": ("tp-size", "tensor-parallel-size"),
    "pp": ("pp-size", "pipeline-parallel-size"),
    "dp": ("dp-size", "data-parallel-size"),
}
"""Names of other engines and other releases, and what this engine calls it in one release or another."""

REMARKS: Mapping[str, str] = {
    "enable-prefix-caching": "prefixes are cached unless --disable-radix-cache is given: drop the flag",
    "enable-metrics-port": "metrics are served on the server's own port: drop the flag",
    "device-ids": "the GPUs are chosen by the server's placement: drop the flag",
}
"""Names that have no counterpart, with what to do instead."""


def closest_flags(name: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the known flags that were probably meant, the likeliest first, LIMIT at most; names without dashes.

    A name that another engine or release uses counts before likeness. None is returned where any would be a guess.
    """
    elsewhere = [flag for flag in KNOWN_ELSEWHERE.get(name, ()) if flag in known and flag != name]
    if elsewhere or name in REMARKS:
        return tuple(elsewhere[:LIMIT])
    rated = sorted(((likeness(name, flag), flag) for flag in known), key=lambda one: (-one[0], len(one[1]), one[1]))
    best = rated[0][0] if rated else 0.0
    return tuple(flag for rate, flag in rated[:LIMIT] if rate >= SURE and rate >= best - NEXT_BEST)


def meant_among(name: str, candidates: Collection[str]) -> str | None:
    """Return which of the flags that a name begins is meant by whoever writes it, None when that is a guess."""
    return next((flag for flag in KNOWN_ELSEWHERE.get(name, ()) if flag in candidates), None)


def likeness(name: str, flag: str) -> float:
    """Return how much two flags are alike, 0 to 1: letter by letter, or word by word in any order."""
    return max(_letters_in_common(name, flag), _words_in_common(name.split("-"), flag.split("-")))


def remark(name: str) -> str | None:
    """Return what to do about a name that this engine has no counterpart for."""
    return REMARKS.get(name)


def _letters_in_common(one: str, other: str) -> float:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= SURE else 0.0


def _words_in_common(one: list[str], other: list[str]) -> float:
    """Return twice the likeness of the words that both have over the number of all words; each word counts once."""
    return 2 * sum(_paired(one, other)) / (len(one) + len(other))


def _paired(one: list[str], other: list[str]) -> Iterator[float]:
    left = list(other)
    for word in one:
        rated = max(((_word_likeness(word, option), option) for option in left), default=(0.0, ""))
        if rated[0] >= WORD_SURE:
            left.remove(rated[1])
            yield rated[0]


@lru_cache(maxsize=8192)
def _word_likeness(word: str, other: str) -> float:
    """Return how much two words are alike; one that begins the other is a shortened one."""
    if word == other:
        return 1.0
    shorter, longer = sorted((word, other), key=len)
    if len(shorter) > 2 and longer.startswith(shorter):  # noqa: PLR2004  # shorter ones begin too many words
        return 0.9
    matcher = SequenceMatcher(None, word, other, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= WORD_SURE else 0.0
