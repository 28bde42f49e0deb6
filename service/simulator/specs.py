"""What a simulated node is made of: its GPUs, engine environments and models. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

ENGINE_VERSIONS = ("0.5.10.post1", "0.5.16", "0.5.23")
"""The versions whose texts, flags and answers the stand-in knows."""
NEWEST_ENGINE = "0.5.23"


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One kind of GPU, as nvidia-smi describes it."""

    name: str = "NVIDIA H100 80GB HBM3"
    memory_mib: int = 81559
    power_limit_w: float = 700.0
    compute_capability: str = "9.0"
    has_ecc: bool = True


RTX_PRO_6000 = GpuSpec(
    name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
    memory_mib=97887,
    power_limit_w=600.0,
    compute_capability="12.0",
)
L40S = GpuSpec(name="NVIDIA L40S", memory_mib=46068, power_limit_w=350.0, compute_capability="8.9")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model directory: config.json, safetensors shards with true headers and sparse bodies, an index, a tokenizer.

    The shards take no disk space whatever size they show: only their headers are written.
    """

    name: str
    architecture: str = "LlamaForCausalLM"
    model_type: str = "llama"
    shard_count: int = 4
    layer_count: int = 32
    hidden_size: int = 4096
    intermediate_size: int = 14336
    head_count: int = 32
    kv_head_count: int = 8
    vocab_size: int = 128256
    max_position_embeddings: int = 131072
    extra_config: dict[str, object] = field(default_factory=dict)
    draft_layer_prefix: str | None = None
    """For an EAGLE-3 draft: the prefix of its one layer, `midlayer.` (right everywhere) or `layers.0.`."""
    draft_target_hidden_size: int = 0
    draft_aux_layer_count: int = 3
    """How many hidden states of the target the draft's `fc` takes: its input is this times the target's width."""


TINY_LLAMA = ModelSpec(
    name="tiny-llama",
    shard_count=2,
    layer_count=2,
    hidden_size=64,
    intermediate_size=128,
    head_count=4,
    kv_head_count=2,
    vocab_size=512,
    max_position_embeddings=2048,
)
LLAMA_8B = ModelSpec(name="llama-3.1-8b-instruct")
KIMI_LIKE = ModelSpec(
    name="kimi-like",
    architecture="DeepseekV3ForCausalLM",
    model_type="kimi_k2",
    shard_count=64,
    layer_count=61,
    hidden_size=7168,
    intermediate_size=18432,
    head_count=64,
    kv_head_count=64,
    vocab_size=163840,
    max_position_embeddings=262144,
    extra_config={
        "n_routed_experts": 384,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 2048,
        "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"},
    },
)
"""A mixture of experts of a trillion parameters in 4 bits: 64 shards, 262144 tokens of context."""
KIMI_EAGLE3 = ModelSpec(
    name="kimi-like-eagle3",
    architecture="LlamaForCausalLMEagle3",
    shard_count=1,
    layer_count=1,
    hidden_size=7168,
    intermediate_size=18432,
    head_count=64,
    kv_head_count=64,
    vocab_size=163840,
    max_position_embeddings=262144,
    extra_config={"draft_vocab_size": 32000},
    draft_layer_prefix="midlayer.",
    draft_target_hidden_size=7168,
)
"""The EAGLE-3 draft that fits `KIMI_LIKE`."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node. Without GPUs there is no nvidia-smi at all."""

    name: str
    gpu_count: int = 8
    gpu: GpuSpec = field(default_factory=GpuSpec)
    engine_versions: tuple[str, ...] = (NEWEST_ENGINE,)
    """The environments made under the home; the first is the node's `engine_python`."""
    models: tuple[ModelSpec, ...] = (TINY_LLAMA,)
    driver_version: str = "590.48.01"
    script: str | None = None
    """The engines' default script on this node; a profile's VIGIL_SIM_SCRIPT or a model's simulation.json wins."""
