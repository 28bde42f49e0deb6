"""Which phase of a start a stack belongs to, told by the names of its frames."""

import re
from collections.abc import Sequence

from service.sglang.patterns import any_of
from service.sglang.phases import Phase

_FRAME_PHASES: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    (
        Phase.SERVING,
        any_of(
            r"event_loop",
            r"forward_thread_func",
            r"recv_requests",
            r"process_batch",
            r"ModelTpServer",
            r"exposed_step",
        ),
    ),
    (
        Phase.DISTRIBUTED_INIT,
        any_of(
            r"deep_ep/buffer\.py",
            r"init_torch_distributed",
            r"initialize_model_parallel",
            r"init_distributed_environment",
            r"pynccl\w*\.py __init__",
            r"initialize_dp_attention",
        ),
    ),
    (
        Phase.CAPTURING_GRAPHS,
        any_of(
            r"graph_runner\w*\.py",
            r"capture_one",
            r"init_(?:cuda|device)_graphs",
            r"capture_model",
            r"cuda_graph_setup",
        ),
    ),
    (
        Phase.LOADING_DRAFT_WEIGHTS,
        any_of(
            r"speculative/\w+\.py __init__",
            r"models/\w*(?:eagle3?|nextn|mtp)\.py (?:__init__|load_weights)",
            r"init_draft_worker|load_draft",
        ),
    ),
    (Phase.COMPILING_KERNELS, any_of(r"flashinfer_autotune", r"kernel_warmup")),
    (
        Phase.ALLOCATING_KV_CACHE,
        any_of(
            r"init_memory_pool",
            r"memory_pool\w*\.py",
            r"kv_cache_configurator",
            r"pool_configurator",
            r"profile_max_num_token",
        ),
    ),
    (
        Phase.LOADING_WEIGHTS,
        any_of(r"\b(?:load_model|load_weights|_initialize_model|get_model)$", r"weight_utils\.py", r"model_loader/"),
    ),
    (Phase.WARMING_UP, any_of(r"_wait_and_warmup", r"_execute_server_warmup", r"_wait_warmup")),
    (
        Phase.RESOLVING_CONFIG,
        any_of(r"model_config\.py", r"\bget_config$", r"configuration_auto"),
    ),
    (Phase.SPAWNING, any_of(r"_launch_subprocesses", r"_set_envs_and_config", r"run_\w+_process$")),
    (
        Phase.PARSING_ARGUMENTS,
        any_of(r"server_args\.py", r"arg_groups/", r"launch_server\.py <module>", r"cli/\w+\.py", r"check_env\.py"),
    ),
)
"""Where a stack was: the first that fits. The event loop before the ready line is the warm-up's request."""

_EARLY = (None, Phase.PARSING_ARGUMENTS, Phase.RESOLVING_CONFIG, Phase.SPAWNING)
_LOADS_A_DRAFT = (Phase.LOADING_WEIGHTS, Phase.LOADING_DRAFT_WEIGHTS)
_BOUND = (Phase.BINDING_HTTP, Phase.WARMING_UP)


def phase_of_frames(frames: Sequence[str], stood: Phase | None, *, was_ready: bool) -> Phase | None:
    """Return the phase that a stack belongs to, None when it does not tell."""
    told = [frame for frame in frames if not frame.endswith("<module>") or frame.endswith("launch_server.py <module>")]
    for phase, pattern in _FRAME_PHASES:
        if not any(pattern.search(frame) for frame in told):
            continue
        if phase is Phase.SERVING and not was_ready and stood is not None:
            return Phase.WARMING_UP if stood in _BOUND else stood
        if (phase in _EARLY and stood not in _EARLY) or (phase, stood) == _LOADS_A_DRAFT:
            return stood
        return phase
    return None
