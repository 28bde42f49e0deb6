"""The phases of a start: what each means, in the order in which most engine versions pass them."""

from enum import StrEnum


class Phase(StrEnum):
    """Where a starting engine is, read from its log.

    The order of draft weights, KV cache and graphs differs by version (facts: SGLang up to 0.5.10 loads the draft
    after the target's graphs, from 0.5.16 right after the target's weights), and phases repeat.
    """

    PARSING_ARGUMENTS = "parsing_arguments"
    RESOLVING_CONFIG = "resolving_config"
    SPAWNING = "spawning"
    DISTRIBUTED_INIT = "distributed_init"
    LOADING_WEIGHTS = "loading_weights"
    LOADING_DRAFT_WEIGHTS = "loading_draft_weights"
    ALLOCATING_KV_CACHE = "allocating_kv_cache"
    CAPTURING_GRAPHS = "capturing_graphs"
    COMPILING_KERNELS = "compiling_kernels"
    BINDING_HTTP = "binding_http"
    WARMING_UP = "warming_up"
    SERVING = "serving"
