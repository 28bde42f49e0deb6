"""Which words of the engine's log mark a phase of its start, in every version from the RPyC days to 0.5.23.

Facts: SGLang §4. Each mark is searched in a line without its prefixes; the first that fits counts.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

from service.sglang.phases import Phase


class Sign(Enum):
    """What a line says about the start, besides the phase it belongs to."""

    NONE = auto()
    LAUNCH = auto()
    """The engine printed its resolved arguments: a new start."""
    GROUP_INIT = auto()
    WEIGHTS = auto()
    """A rank begins to load weights: its first time the target's, later the draft's."""
    LOADED = auto()
    TRAFFIC = auto()
    """A batch that no warm-up makes."""
    READY = auto()
    STOPPING = auto()
    """Somebody asked the server to stop; what dies from here on dies on request."""
    SHUTDOWN = auto()
    """The interpreter cleans up behind itself."""
    OTHER = auto()
    """Belongs to the engine at its usual log level, and to no phase."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A kind of line, and the phase that it begins or belongs to.

    `is_of_rank`: every rank prints it, so a straggler's must not turn the phase back. `is_usual`: it is written at
    level info, so a log that has it is not a quiet one.
    """

    pattern: re.Pattern[str]
    phase: Phase | None = None
    sign: Sign = Sign.NONE
    is_of_rank: bool = False
    is_usual: bool = True


def _mark(
    pattern: str,
    phase: Phase | None = None,
    sign: Sign = Sign.NONE,
    *,
    is_of_rank: bool = False,
    is_usual: bool = True,
) -> Mark:
    return Mark(re.compile(pattern), phase, sign, is_of_rank, is_usual)


MARKS: tuple[Mark, ...] = (
    _mark(r"server_args=(?:ServerArgs\(|\{)", Phase.SPAWNING, Sign.LAUNCH),
    _mark(r"The server is fired up and ready to roll!.{0,20}$", Phase.SERVING, Sign.READY),
    _mark(r"Dummy health check server started in background thread", Phase.SERVING, Sign.READY),
    _mark(
        r"SIGTERM received|INFO:\s+Shutting down$|^Gracefully exiting\.\.\.|^KeyboardInterrupt$|SIGINT received",
        sign=Sign.STOPPING,
    ),
    _mark(r"resource_tracker: There appear to be \d+ leaked", sign=Sign.SHUTDOWN, is_usual=False),
    _mark(r"^Init (?:torch distributed|parallel) begin", Phase.DISTRIBUTED_INIT, Sign.GROUP_INIT, is_of_rank=True),
    _mark(r"^(?:Rank \d+: )?[Ll]oad weight begin", Phase.LOADING_WEIGHTS, Sign.WEIGHTS, is_of_rank=True),
    _mark(r"^(?:Rank \d+: )?[Ll]oad weight end", Phase.LOADING_WEIGHTS, Sign.LOADED, is_of_rank=True),
    _mark(
        r"^(?:\S+ )?KV Cache (?:is allocated|VA upper bound)|^Memory pool end|^Using KV cache dtype"
        r"|^Use sliding window memory pool|^The available memory for KV cache|KV sizing: KV cache allocated"
        r"|^Mamba Cache is allocated",
        Phase.ALLOCATING_KV_CACHE,
        is_of_rank=True,
    ),
    _mark(
        r"^Capture .{0,60}\b(?:[Gg]raphs? begin|cuda graph (?:bs|num tokens) \[)",
        Phase.CAPTURING_GRAPHS,
        is_of_rank=True,
    ),
    _mark(
        r"Running FlashInfer autotune|Entering DeepGEMM JIT|DeepGEMM JIT Pre-Compile session|DeepGEMM warmup:",
        Phase.COMPILING_KERNELS,
        is_of_rank=True,
    ),
    _mark(r"Max_total_num_token=\d+", Phase.SERVING),
    _mark(r"max_total_num_tokens=\d+, ", sign=Sign.OTHER),
    _mark(
        r"Started server process \[|Waiting for application startup|Application startup complete|Starting granian",
        Phase.BINDING_HTTP,
    ),
    _mark(r"^Endpoint '/\w+' is deprecated", Phase.WARMING_UP, is_usual=False),
    _mark(r"Uvicorn running on |Listening at: https?:", Phase.WARMING_UP),
    _mark(
        r'"GET /(?:get_)?model_info HTTP/[\d.]+" 200|Start of (?:pd disaggregation|prefill) warmup', Phase.WARMING_UP
    ),
    _mark(r"^Decode batch[.,] |^Prefill batch[.,] .*#running-req: [1-9]", Phase.SERVING, Sign.TRAFFIC),
    _mark(r"Decode out of memory happened|KV cache pool is full\. Retract", Phase.SERVING, Sign.TRAFFIC),
    _mark(r"^(?:Init (?:torch distributed|parallel) ends|Tree cache initialized)", sign=Sign.OTHER),
    _mark(
        r"Attention backend not |^Casting torch\.|^Hybrid swa model|quantization is not fully optimized"
        r"|Overlap schedul(?:er|e) is disabled|is deprecated and will be removed in a future release"
        r"|^Max running requests is reset|huggingface\.co/\S+/config\.json"
        r"|^Found local HF snapshot|KV cache is forced as chunk cache",
        Phase.RESOLVING_CONFIG,
        is_usual=False,
    ),
    _mark(r"launch_server\.py:\d+: UserWarning|^== SGLang ==$", Phase.PARSING_ARGUMENTS, is_usual=False),
)

SHARD_BAR = re.compile(
    r"Load(?:ing)?\b[\w .,'/()-]{0,80}:\s{1,4}\d{1,3}% Completed \| (\d{1,6})/(\d{1,6})"
    r"|shards:\s{1,4}\d{1,3}% Completed \| (\d{1,6})/(\d{1,6})"
    r"|^Loading [\w .-]{0,60}:\s{1,4}\d{1,3}%\|[^|]{0,400}\| (\d{1,6})/(\d{1,6})"
)
GRAPH_BAR = re.compile(r"Capturing [a-z]{2,20}\b[^|]{0,120}?:?\s{0,4}\d{1,3}%\|[^|]{0,400}\| (\d{1,6})/(\d{1,6})")
BARE_BAR = re.compile(r"^\s{0,4}\d{1,3}%\|[^|]{0,400}\| (\d{1,6})/(\d{1,6})")
KERNEL_BAR = re.compile(r"DeepGEMM warmup[^|]{0,120}\d{1,3}%\|[^|]{0,400}\| (\d{1,6})/(\d{1,6})")

VERSION = re.compile(
    r"(?:SGLang Version|sglang version:|^sglang==|^sglang[ =]{1,3}v?)\s{0,3}(\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)*)"
    r"|/sglang-(\d+\.\d+\.\d+(?:\.?(?:post|rc)\d+)*)[-/]"
)
LISTEN_PORT = re.compile(r"[(, {]'?port'?[=:] ?(\d{1,5})")
PORT_WITHIN = 6_000
ONE_NODE = re.compile(r"\bnnodes'?[=:] ?1\b")
EOF_LINE = re.compile(r"^exit (\d{1,3})$")


def mark_of(text: str) -> Mark | None:
    """Return the first mark that a line bears, or None."""
    for mark in MARKS:
        if mark.pattern.search(text):
            return mark
    return None
