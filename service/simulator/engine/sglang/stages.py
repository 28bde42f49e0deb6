"""The stages a rank goes through, in the order and words of the version: what is said, what memory each takes."""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional, Sequence

from .console import Console
from .gpus import CONTEXT_MIB, MIB_PER_GB, GpuMemory
from .resolution import Plan
from .script import Script

DRAFT_SHARE = 0.02
GRAPH_SHARE = 0.02
LARGEST_POOL_TOKENS = 4_000_000
CPU_AVAILABLE_GB = 20.0
DEEP_GEMM_STEPS = 16


class Budget(NamedTuple):
    """How the memory of a rank's GPU is spent, in MiB."""

    weights: float
    draft: float
    pool: float
    graphs: float
    tokens: int


class Stage(NamedTuple):
    """One stage: it gains memory step by step, between a line at its begin and a line at its end."""

    phase: str
    seconds: float
    gain_mib: float
    begin: Callable[[], None]
    end: Callable[[float], None]
    """Told how many seconds the stage took."""
    steps: int = 1
    offset: int = 0
    """Steps of this phase that earlier stages took."""
    bar: Optional[Callable[[int], str]] = None
    """The bar's label when so many steps are done; None draws no bar."""
    has_blocks: bool = False


def budget(plan: Plan, script: Script, memory: Optional[GpuMemory]) -> Budget:
    """Return what a rank will need. The pool may come out negative: then there is no memory for it."""
    shares = plan.arguments.tp_size * plan.arguments.pp_size
    total = memory.gpu.memory_mib if memory else 0
    weights = script.weights_mib
    if weights is None:
        weights = int(min(plan.model.size_mib / shares, 0.6 * total))
    draft = DRAFT_SHARE * total if plan.draft else 0.0
    pool = total * plan.arguments.mem_fraction_static - CONTEXT_MIB - weights - draft
    config = plan.model.config
    width = config.get("hidden_size", 64) * config.get("num_key_value_heads", 2) // config.get("num_attention_heads", 4)
    bytes_per_token = max(4 * config.get("num_hidden_layers", 2) * width // plan.arguments.tp_size, 1)
    tokens = int(pool * 2**20 / bytes_per_token) if memory else 20000
    limit = plan.arguments.max_total_tokens or LARGEST_POOL_TOKENS
    return Budget(weights, draft, pool, GRAPH_SHARE * total, min(tokens, limit))


def graph_sizes(count: int) -> List[int]:
    """Return the batch sizes for which graphs are captured."""
    small = [1, 2, 4]
    return (small + [8 * n for n in range(1, max(count - 2, 1))])[:count]


class Stages:
    """Builds the stages of one rank."""

    def __init__(
        self, plan: Plan, script: Script, memory: Optional[GpuMemory], console: Console, *, is_first: bool
    ) -> None:
        self._plan = plan
        self._script = script
        self._memory = memory
        self._console = console
        self._is_first = is_first
        self._is_new = plan.version.has_new_texts
        self.budget = budget(plan, script, memory)
        self._shards = script.shards or max(len(plan.model.shards), 1)

    def in_order(self) -> List[Stage]:
        """Return the stages; up to 0.5.10 the draft is loaded after the target's graphs, later before the pool."""
        draft = [self._draft_weights()] if self._plan.draft else []
        pool, graphs = self._pool(), self._graphs()
        draft_graphs = self._draft_graphs() if draft and graphs else []
        first = [self._distributed_init(), self._weights()]
        if self._is_new:
            return [*first, *draft, pool, *self._kernels(), *graphs, *draft_graphs]
        return [*first, pool, *self._kernels(), *graphs, *draft, *draft_graphs]

    @property
    def has_memory(self) -> bool:
        """Whether the rank has a GPU."""
        return self._memory is not None

    def available_gb(self) -> float:
        """Return the memory that is free, on the GPU or in the host."""
        return self._memory.available_gb() if self._memory else CPU_AVAILABLE_GB

    def say_capacity(self) -> None:
        """Write the line with the sizes that were found, which the first rank writes when all is done."""
        a, kind = self._plan.arguments, "gpu" if self._memory else "cpu"
        running = a.max_running_requests or min(max(self.budget.tokens // 8, 1), 4096)
        self._console.info(
            f"max_total_num_tokens={self.budget.tokens}, chunked_prefill_size={a.chunked_prefill_size}, "
            f"max_prefill_tokens={a.max_prefill_tokens}, max_running_requests={running}, "
            f"context_len={self._plan.context_length}, available_{kind}_mem={self.available_gb():.2f} GB"
        )

    def _distributed_init(self) -> Stage:
        newest = self._plan.version.is_newest
        name = "Init parallel" if newest else "Init torch distributed"
        used = CONTEXT_MIB / MIB_PER_GB if self._memory else 0.0

        def end(elapsed: float) -> None:
            if self._plan.arguments.tp_size > 1 and self._memory and self._is_first:
                self._console.info("sglang is using nccl==2.29.3")
            usage = "" if newest else f", mem usage={used:.2f} GB"
            self._console.info(f"{name} ends. elapsed={elapsed:.2f} s{usage}")
            if newest:
                self._console.info(f"Memory baseline taken. mem usage={used:.2f} GB")

        seconds = self._script.phases["distributed_init"]
        return Stage("distributed_init", seconds, CONTEXT_MIB, self._line(f"{name} begin."), end)

    def _weights(self) -> Stage:
        architecture = self._plan.model.architecture
        return self._loading("loading_weights", architecture, self._shards, self.budget.weights)

    def _draft_weights(self) -> Stage:
        draft = self._plan.draft
        if draft is None:
            raise ValueError("there is no draft")
        return self._loading("loading_draft_weights", draft.architecture, max(len(draft.shards), 1), self.budget.draft)

    def _loading(self, phase: str, architecture: str, shards: int, mib: float) -> Stage:
        quantization = self._plan.arguments.quantization
        quant = f"quant={quantization}, " if quantization else ""

        def begin() -> None:
            self._console.info(f"Load weight begin. avail mem={self.available_gb():.2f} GB")

        def end(elapsed: float) -> None:
            self._console.info(
                f"Load weight end. elapsed={elapsed:.2f} s, type={architecture}, {quant}"
                f"avail mem={self.available_gb():.2f} GB, mem usage={mib / MIB_PER_GB:.2f} GB."
            )

        bar = (lambda _: "Multi-thread loading shards") if self._is_first else None
        return Stage(phase, self._script.phases[phase], mib, begin, end, steps=shards, bar=bar)

    def _pool(self) -> Stage:
        half = self.budget.pool / 2 / MIB_PER_GB if self._memory else 0.0
        dtype = "dtype: torch.bfloat16, " if self._is_new else ""

        def end(_: float) -> None:
            self._console.info(
                f"KV Cache is allocated. {dtype}#tokens: {self.budget.tokens}, "
                f"K size: {half:.2f} GB, V size: {half:.2f} GB"
            )
            self._console.info(f"Memory pool end. avail mem={self.available_gb():.2f} GB")

        begin = (lambda: None) if self._is_new else self._line("Using KV cache dtype: torch.bfloat16")
        seconds = self._script.phases["allocating_kv_cache"]
        return Stage("allocating_kv_cache", seconds, max(self.budget.pool, 0.0), begin, end)

    def _kernels(self) -> List[Stage]:
        seconds = self._script.phases["compiling_kernels"]
        if seconds <= 0:
            return []
        begin = self._line(
            "Entering DeepGEMM JIT Pre-Compile session. It may take a long time (typically 10-20 mins) if you have "
            "not run `sglang.compile_deep_gemm`."
        )
        bar = (lambda _: "DeepGEMM warmup") if self._is_first else None
        return [
            Stage("compiling_kernels", seconds, 0.0, begin, lambda _: None, DEEP_GEMM_STEPS, bar=bar, has_blocks=True)
        ]

    def _graphs(self) -> List[Stage]:
        a = self._plan.arguments
        disabled = a.disable_cuda_graph or getattr(a, "cuda_graph_backend_decode", None) == "disabled"
        if disabled or not self._memory:
            return []
        seconds = self._script.phases["capturing_graphs"]
        if not self._is_new:
            return [self._capture("capturing_graphs", "Capture cuda graph", seconds, self._script.graphs)]
        what = "verify" if self._plan.algorithm else "decode"
        name = f"Capture target {what} CUDA graph"
        return [self._capture("capturing_graphs", name, seconds, self._script.graphs)]

    def _draft_graphs(self) -> List[Stage]:
        """Return the draft's two captures, which only the first rank tells of; one draft step needs no decode graph."""
        new = ("Capture draft decode CUDA graph", "Capture draft extend CUDA graph")
        old = ("Capture draft cuda graph", "Capture draft extend cuda graph")
        names: Sequence[str] = new if self._is_new else old
        if self._plan.arguments.speculative_num_steps == 1:
            names = names[1:]
        half, seconds = max(self._script.graphs // 2, 1), self._script.phases["capturing_draft_graphs"]
        return [
            self._capture("capturing_draft_graphs", name, seconds / len(names), half, position * half)
            for position, name in enumerate(names)
        ]

    def _capture(self, phase: str, name: str, seconds: float, count: int, offset: int = 0) -> Stage:
        sizes = graph_sizes(count)
        is_told = self._is_first or phase == "capturing_graphs"
        gain = self.budget.graphs * (0.8 if phase == "capturing_graphs" else 0.1)
        tokens = (self._plan.arguments.speculative_num_draft_tokens or 1) if self._plan.algorithm else 1

        def begin() -> None:
            available = f"avail mem={self.available_gb():.2f} GB"
            if not self._is_new:
                self._tell(f"{name} begin. This can take up to several minutes. {available}", is_told=is_told)
                self._tell(f"Capture cuda graph bs {sizes}", is_told=self._is_first and phase == "capturing_graphs")
                return
            listed = "" if self._plan.version.is_newest and phase == "capturing_graphs" else f"bs={sizes}, "
            self._tell(f"{name} begin. backend=full, num_tokens_per_req={tokens}, {listed}{available}", is_told=is_told)

        def end(elapsed: float) -> None:
            used, available = f"mem usage={gain / MIB_PER_GB:.2f} GB", f"avail mem={self.available_gb():.2f} GB."
            if not self._is_new:
                self._tell(f"{name} end. Time elapsed: {elapsed:.2f} s. {used}. {available}", is_told=is_told)
                return
            listed = f"bs={sizes}, " if self._plan.version.is_newest and phase == "capturing_graphs" else ""
            self._tell(f"{name} end. {listed}elapsed={elapsed:.2f} s, {used}, {available}", is_told=is_told)

        def label(done: int) -> str:
            size = sizes[max(len(sizes) - 1 - done, 0)]
            return f"Capturing batches (bs={size} avail_mem={self.available_gb():.2f} GB)"

        bar = label if self._is_first else None
        return Stage(phase, seconds, gain, begin, end, count, offset, bar, has_blocks=True)

    def _line(self, text: str) -> Callable[[], None]:
        return lambda: self._console.info(text)

    def _tell(self, text: str, *, is_told: bool) -> None:
        if is_told:
            self._console.info(text)
