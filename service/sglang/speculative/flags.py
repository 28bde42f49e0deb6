"""Which speculative arguments and algorithms each release has (facts: SGLang §2.1; the parsers of the six releases)."""

from collections.abc import Mapping

from service.sglang.releases import KNOWN_RELEASES, V0_4_9, V0_5_2, V0_5_6, V0_5_10, V0_5_16, V0_5_23
from service.sglang.versions import Version

ALGORITHMS_SINCE: Mapping[str, Version] = {
    "EAGLE": V0_4_9,
    "EAGLE3": V0_4_9,
    "NEXTN": V0_4_9,
    "STANDALONE": V0_5_2,
    "NGRAM": V0_5_6,
    "DFLASH": V0_5_16,
    "DSPARK": V0_5_16,
    "FROZEN_KV_MTP": V0_5_16,
    "UNO": V0_5_23,
}
FREE_ALGORITHM_NAMES_SINCE = V0_5_16
"""From here on the name may be in small letters, or one that a plug-in registered; before it is a closed list."""

_ADDED: Mapping[Version, str] = {
    V0_4_9: """accept-threshold-acc accept-threshold-single algorithm draft-model-path eagle-topk num-draft-tokens
        num-steps token-map""",
    V0_5_2: "attention-mode draft-model draft-model-revision",
    V0_5_6: """draft-load-format moe-a2a-backend moe-runner-backend ngram-branch-length ngram-capacity ngram-match-type
        ngram-max-bfs-breadth ngram-max-match-window-size ngram-min-bfs-breadth ngram-min-match-window-size""",
    V0_5_10: "draft-attention-backend draft-model-quantization ngram-max-trie-depth",
    V0_5_16: """adaptive adaptive-config dflash-block-size draft-window-size dspark-align-verify-tokens-to-graph-tier
        dspark-block-size dspark-confidence-sts-path dspark-sps-table-path ngram-external-corpus-max-tokens
        ngram-external-corpus-path ngram-external-sam-budget skip-dp-mlp-sync use-rejection-sampling""",
    V0_5_23: """domino-candidate-pool-size draft-kv-cache-dtype draft-sink-size dsa-topk-backend
        enable-w4a4-mxfp4-megamoe use-block-verification""",
}
_REMOVED: Mapping[Version, str] = {
    V0_5_10: "ngram-branch-length ngram-max-match-window-size ngram-min-match-window-size",
    V0_5_23: "skip-dp-mlp-sync",
}
_PREFIX = "speculative-"


def speculative_flags(release: Version) -> frozenset[str]:
    """Return the names of the speculative arguments of a release, without dashes in front."""
    names: set[str] = set()
    for known in KNOWN_RELEASES:
        if known <= release:
            names |= {_PREFIX + word for word in _ADDED.get(known, "").split()}
            names -= {_PREFIX + word for word in _REMOVED.get(known, "").split()}
    return frozenset(names)


def flag_since(name: str) -> Version | None:
    """Return the first release that has an argument, None when none has."""
    return next((release for release, words in _ADDED.items() if name.removeprefix(_PREFIX) in words.split()), None)


def algorithms(release: Version) -> tuple[str, ...]:
    """Return the algorithms of a release."""
    return tuple(name for name, since in ALGORITHMS_SINCE.items() if since <= release)
