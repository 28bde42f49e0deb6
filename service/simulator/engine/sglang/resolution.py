"""What the engine makes of its arguments before it starts anything: defaults, and combinations that it refuses."""

from __future__ import annotations

import argparse
import importlib
import os
from typing import Dict, List, NamedTuple, Optional, Tuple

from .console import Console
from .gpus import Gpu, visible_gpus
from .model_files import ModelFiles, open_model
from .tracebacks import EngineError, Frame
from .versions import Version

EAGLE_FAMILY = ("EAGLE", "EAGLE3", "STANDALONE")
ALGORITHMS = (*EAGLE_FAMILY, "NEXTN", "NGRAM", "DFLASH", "DSPARK", "UNO")
MTP_ARCHITECTURES = ("DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "Glm4MoeForCausalLM", "BailingMoeForCausalLM")
"""Targets that carry their own draft: without a draft path they are their own."""
FALSE_WORDS = ("", "0", "false", "no")
OVERRIDE_CONTEXT = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
SPECULATIVE_FRAME = Frame(
    "sglang/srt/arg_groups/speculative_hook.py",
    1162,
    "_handle_eagle_family",
    "and cfg.speculative_num_draft_tokens is None",
)
OLD_SPECULATIVE_FRAME = Frame(
    "sglang/srt/server_args.py", 2811, "_handle_speculative_decoding", "self.speculative_eagle_topk is None"
)


class Plan(NamedTuple):
    """Everything the engine needs to know to start."""

    version: Version
    arguments: argparse.Namespace
    model: ModelFiles
    draft: Optional[ModelFiles]
    algorithm: Optional[str]
    gpus: Tuple[Gpu, ...]
    """Those that are visible; none on the CPU."""

    @property
    def context_length(self) -> int:
        """The context of the target."""
        return int(self.arguments.context_length or self.model.max_context)

    @property
    def served_name(self) -> str:
        """The name under which clients ask for the model."""
        return str(self.arguments.served_model_name or self.arguments.model_path)

    def ranks(self) -> List[Dict[str, int]]:
        """Return one dict per scheduler, DP, PP and TP numbers in the order in which titles and prefixes show them."""
        a = self.arguments
        return [
            {"DP": dp, "PP": pp, "TP": tp}
            for dp in range(a.dp_size)
            for pp in range(a.pp_size)
            for tp in range(a.tp_size)
        ]

    def label(self, rank: int) -> str:
        """Return a rank's log prefix: `DP0 TP3`, each part only where there are several, so often nothing."""
        sizes = {"DP": self.arguments.dp_size, "PP": self.arguments.pp_size, "TP": self.arguments.tp_size}
        return " ".join(f"{part}{number}" for part, number in self.ranks()[rank].items() if sizes[part] > 1)


def resolve(arguments: argparse.Namespace, version: Version, console: Console) -> Plan:
    """Return the plan. Raises EngineError as the engine would, in the order in which it looks."""
    model = open_model(arguments.model_path)
    _check_topology(arguments)
    _check_context(arguments, model)
    gpus = () if arguments.device == "cpu" else tuple(visible_gpus())
    has_accelerator = arguments.device != "cpu" and importlib.import_module("torch").cuda.is_available()
    if arguments.device != "cpu" and not has_accelerator:
        raise EngineError(
            "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) or platform plugin is available.",
            [Frame("sglang/srt/utils/common.py", 1124, "get_device", "raise RuntimeError(")],
        )
    if arguments.attention_backend is None:
        arguments.attention_backend = "fa3" if has_accelerator else "torch_native"
        console.info(f"Attention backend not specified. Use {arguments.attention_backend} backend by default.")
    algorithm = _resolve_speculation(arguments, version, model, console)
    draft = open_model(arguments.speculative_draft_model_path) if arguments.speculative_draft_model_path else None
    _fill_defaults(arguments, speculates=algorithm is not None)
    return Plan(version, arguments, model, draft, algorithm, gpus)


def is_override_allowed() -> bool:
    """Tell whether the environment allows a context longer than a config says."""
    return os.environ.get(OVERRIDE_CONTEXT, "").lower() not in FALSE_WORDS


def context_warning(reason: str, wanted: int, allowed: int) -> str:
    """Return the engine's text about a context that is too long; fatal unless overridden, despite its first word."""
    return (
        f"Warning: {reason} context_length ({wanted}) is greater than the derived context_length ({allowed}). This may "
        "lead to incorrect model outputs or CUDA errors. Note that the derived context_length may differ from "
        "max_position_embeddings in the model's config."
    )


def context_error(reason: str, wanted: int, allowed: int) -> EngineError:
    """Return the exception that the warning becomes."""
    text = context_warning(reason, wanted, allowed)
    advice = f" To allow overriding this maximum, set the env var {OVERRIDE_CONTEXT}=1"
    frame = Frame("sglang/srt/configs/model_config.py", 1314, "_derive_context_length", "raise ValueError(")
    return EngineError(f"ValueError: {text}{advice}", [frame])


def _check_topology(arguments: argparse.Namespace) -> None:
    hook = "sglang/srt/arg_groups/validation_hook.py"
    if arguments.tp_size * arguments.pp_size % arguments.nnodes:
        frame = Frame(hook, 179, "check_server_args", "assert (cfg.tp_size * cfg.pp_size) % cfg.nnodes == 0, (")
        raise EngineError("AssertionError: tp_size must be divisible by number of nodes", [frame])
    if arguments.served_model_name and ":" in arguments.served_model_name:
        frame = Frame(hook, 216, "check_server_args", "raise ValueError(")
        raise EngineError("ValueError: served_model_name cannot contain a colon (':') character.", [frame])


def _check_context(arguments: argparse.Namespace, model: ModelFiles) -> None:
    wanted = arguments.context_length
    if wanted and wanted > model.max_context and not is_override_allowed():
        raise context_error("User-specified", wanted, model.max_context)


def _resolve_speculation(
    arguments: argparse.Namespace, version: Version, model: ModelFiles, console: Console
) -> Optional[str]:
    if not arguments.speculative_algorithm:
        return None
    name = arguments.speculative_algorithm.upper()
    if name not in ALGORITHMS:
        frame = Frame("sglang/srt/speculative/spec_info.py", 65, "from_string", "raise ValueError(")
        raise EngineError(f"ValueError: Unknown speculative algorithm name: {name}", [frame])
    if arguments.max_running_requests is None:
        arguments.max_running_requests = 48
        console.warning(
            "Max running requests is reset to 48 for speculative decoding. "
            "You can override this by explicitly setting --max-running-requests."
        )
    algorithm = "EAGLE" if name == "NEXTN" else name
    if algorithm in EAGLE_FAMILY:
        _check_eagle_numbers(arguments, version, model, console)
        if not arguments.speculative_draft_model_path and model.architecture in MTP_ARCHITECTURES:
            arguments.speculative_draft_model_path = model.path
    arguments.speculative_algorithm = algorithm
    return algorithm


def _check_eagle_numbers(arguments: argparse.Namespace, version: Version, model: ModelFiles, console: Console) -> None:
    """Apply the rules of the three numbers: all or none, and what is adjusted (see the engine's speculative hook)."""
    frame = SPECULATIVE_FRAME if version.is_newest else OLD_SPECULATIVE_FRAME
    steps, topk = arguments.speculative_num_steps, arguments.speculative_eagle_topk
    if steps is None:
        if topk is not None or arguments.speculative_num_draft_tokens is not None:
            raise EngineError("AssertionError", [frame])
        numbers = (5, 4, 8) if model.architecture == "LlamaForCausalLM" else (3, 1, 4)
        steps, topk, arguments.speculative_num_draft_tokens = numbers
    if topk is None:
        compare = frame._replace(code="if cfg.speculative_eagle_topk > 1 and cfg.page_size > 1:")
        raise EngineError("TypeError: '>' not supported between instances of 'NoneType' and 'int'", [compare])
    if topk == 1 and arguments.speculative_num_draft_tokens != steps + 1:
        console.warning(
            "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1"
        )
        arguments.speculative_num_draft_tokens = steps + 1
    arguments.speculative_num_steps, arguments.speculative_eagle_topk = steps, topk


def _fill_defaults(arguments: argparse.Namespace, *, speculates: bool) -> None:
    if arguments.tokenizer_path is None:
        arguments.tokenizer_path = arguments.model_path
    if arguments.served_model_name is None:
        arguments.served_model_name = arguments.model_path
    if arguments.mem_fraction_static is None:
        arguments.mem_fraction_static = 0.812 if speculates else 0.842
    if arguments.chunked_prefill_size is None:
        arguments.chunked_prefill_size = 8192
    if arguments.page_size is None:
        arguments.page_size = 1
    if arguments.random_seed is None:
        arguments.random_seed = 314159265
