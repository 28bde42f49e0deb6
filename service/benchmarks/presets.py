"""Workloads and latency limits that are shipped, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from service.benchmarks.workload import ClosedLoad, GoodputLimits, OpenLoad, RandomIds, SharedPrefix, Workload

SLO_TEMPLATES: Mapping[str, GoodputLimits] = MappingProxyType(
    {
        "llama2-70b": GoodputLimits(ttft_ms=2000, tpot_ms=200),
        "llama2-70b-interactive": GoodputLimits(ttft_ms=450, tpot_ms=40),
        "llama3.1-8b": GoodputLimits(ttft_ms=2000, tpot_ms=100),
        "llama3.1-8b-interactive": GoodputLimits(ttft_ms=500, tpot_ms=30),
        "llama3.1-405b": GoodputLimits(ttft_ms=6000, tpot_ms=175),
        "llama3.1-405b-interactive": GoodputLimits(ttft_ms=4500, tpot_ms=80),
        "deepseek-r1": GoodputLimits(ttft_ms=2000, tpot_ms=80),
        "deepseek-r1-interactive": GoodputLimits(ttft_ms=1500, tpot_ms=15),
        "gpt-oss-120b": GoodputLimits(ttft_ms=3000, tpot_ms=80),
        "gpt-oss-120b-interactive": GoodputLimits(ttft_ms=2000, tpot_ms=15),
    }
)
"""The server scenarios of MLPerf Inference, where they bind the 99th percentile (facts: benchmarks §2)."""

_SWEEP = [1, 4, 16, 64, 256]

PRESETS: Mapping[str, Workload] = MappingProxyType(
    {
        "smoke": Workload(
            dataset=RandomIds(input_tokens=128, output_tokens=32),
            load=ClosedLoad(concurrency=4),
            num_prompts=50,
            timeout_s=600,
        ),
        "single-stream": Workload(
            dataset=RandomIds(input_tokens=1024, output_tokens=512), load=ClosedLoad(concurrency=1), num_prompts=50
        ),
        "chat-1k-1k": Workload(
            dataset=RandomIds(input_tokens=1024, output_tokens=1024), load=ClosedLoad(concurrency=64)
        ),
        "chat-1k-1k-sweep": Workload(
            dataset=RandomIds(input_tokens=1024, output_tokens=1024), load=ClosedLoad(concurrency=_SWEEP)
        ),
        "long-input-8k-1k": Workload(
            dataset=RandomIds(input_tokens=8192, output_tokens=1024), load=ClosedLoad(concurrency=32)
        ),
        "long-input-8k-1k-sweep": Workload(
            dataset=RandomIds(input_tokens=8192, output_tokens=1024), load=ClosedLoad(concurrency=_SWEEP)
        ),
        "open-loop-1k-256": Workload(
            dataset=RandomIds(input_tokens=1024, output_tokens=256),
            load=OpenLoad(rate_rps=[1, 2, 4, 8, 16]),
            goodput=SLO_TEMPLATES["llama3.1-8b"],
        ),
        "shared-prefix-2k": Workload(
            dataset=SharedPrefix(
                groups=16, prompts_per_group=16, prefix_tokens=2048, question_tokens=128, output_tokens=256
            ),
            load=ClosedLoad(concurrency=16),
        ),
    }
)
"""What can be run without defining anything. None reports a meaningful accept length: that needs real prompts."""
