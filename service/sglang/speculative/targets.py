"""Which target classes hand the hidden states of their layers to an EAGLE-3 draft, and which ones, by release.

Facts: drafts §3. The hook is the method `set_eagle3_layers_to_capture`; a class has it or inherits it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.sglang.architectures import architecture_since, architectures
from service.sglang.releases import V0_4_9, V0_5_2, V0_5_6, V0_5_10, V0_5_16, V0_5_23
from service.sglang.versions import Version

CAPTURE_SINCE: Mapping[Version, str] = {
    V0_4_9: """InternLM3ForCausalLM Llama4ForCausalLM Llama4ForConditionalGeneration LlamaForCausalLM
        MistralForCausalLM Phi3ForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM""",
    V0_5_2: "GptOssForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen2_5_VLForConditionalGeneration",
    V0_5_6: """ApertusForCausalLM DeepseekV2ForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM
        Glm4MoeForCausalLM LongcatFlashForCausalLM MiniMaxM2ForCausalLM Ministral3ForCausalLM
        MistralLarge3ForCausalLM TeleFLMForCausalLM""",
    V0_5_10: """BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM ExaoneMoEForCausalLM
        GlmMoeDsaForCausalLM IQuestCoderForCausalLM KimiK25ForConditionalGeneration MindSporeForCausalLM
        Qwen3NextForCausalLM""",
    V0_5_16: """Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma4ForCausalLM
        Gemma4ForConditionalGeneration Glm4MoeLiteForCausalLM MellumForCausalLM MiniMaxM3SparseForCausalLM
        Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration""",
    V0_5_23: """Cosmos3ForConditionalGeneration Glm5NextForConditionalGeneration
        MiniMaxM3SparseForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration
        Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration Qwen4ExpForConditionalGeneration""",
}
"""Classes that capture, from the release on."""
_INHERITED: Mapping[Version, str] = {
    V0_5_2: "Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration",
    V0_5_10: "Glm4MoeLiteForCausalLM SarvamMoEForCausalLM",
    V0_5_16: """Gemma4UnifiedForConditionalGeneration InternS1ProForConditionalGeneration
        InternS2PreviewForConditionalGeneration Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration
        SarvamMoEForCausalLM""",
    V0_5_23: """ExaoneMoeForCausalLM Gemma4UnifiedForConditionalGeneration InternS1ProForConditionalGeneration
        InternS2MobiusForConditionalGeneration InternS2PreviewForConditionalGeneration SarvamMoEForCausalLM""",
}
"""Classes that inherit the method in exactly that release; whether their own layers then capture was not read."""
_HALF_HOOKED = frozenset({"Qwen2MoeForCausalLM"})
"""It has the method but no `get_embed_and_head` in any release, so it likely fails later."""
_TAKES_BOUNDARIES = frozenset(
    {
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV32ForCausalLM",
        "GlmMoeDsaForCausalLM",
        "MistralLarge3ForCausalLM",
        "KimiK25ForConditionalGeneration",
        "Glm4MoeLiteForCausalLM",
    }
)
"""From 0.5.16 on these add one to the ids only when the first id is 1."""


class Capture(StrEnum):
    """Whether a target class of a release captures hidden states for EAGLE-3."""

    YES = "yes"
    NO = "no"
    """It is registered and has no hook: the start ends in an error, after the weights are loaded."""
    HALF = "half"
    """It has the hook; whether it works was not read, or is doubtful."""
    UNKNOWN = "unknown"
    """The class is not known."""


def capture(architecture: str | None, release: Version) -> Capture:
    """Return whether a target class captures, as far as it was read."""
    if architecture is None:
        return Capture.UNKNOWN
    if architecture in _INHERITED.get(release, "").split() or architecture in _HALF_HOOKED:
        return Capture.HALF
    since = capture_since(architecture)
    if since is not None and since <= release:
        return Capture.YES
    if since is not None or architecture in architectures(release) or architecture_since(architecture):
        return Capture.NO
    return Capture.UNKNOWN


def capture_since(architecture: str) -> Version | None:
    """Return the first known release in which a class captures."""
    return next((release for release, words in CAPTURE_SINCE.items() if architecture in words.split()), None)


@dataclass(frozen=True, slots=True)
class Captured:
    """The layers whose input is taken. What goes into a layer beyond `last` is never reached."""

    layers: tuple[int, ...]
    last: int
    adds_one: bool


def captured_layers(
    architecture: str | None, layer_count: int, layer_ids: Sequence[int] | None, release: Version
) -> Captured:
    """Return where the target takes states, given the ids of the draft's `eagle_config`, None when it has none.

    Ids mean "output of layer" and get one added; the exceptions are those of facts: drafts §3.
    """
    takes_end = architecture == "GptOssForCausalLM" and release >= V0_5_23
    last = layer_count if takes_end else layer_count - 1
    if layer_ids is None:
        shift = 1 if architecture == "MiniMaxM3SparseForConditionalGeneration" else 0
        default = (2 + shift, layer_count // 2 + shift, layer_count - 3 + shift)
        return Captured(default, last, adds_one=bool(shift))
    adds_one = True
    if architecture in _TAKES_BOUNDARIES and release >= V0_5_16:
        adds_one = bool(layer_ids) and layer_ids[0] == 1
    elif takes_end:
        adds_one = not layer_ids or max(layer_ids) != layer_count
    return Captured(tuple(item + adds_one for item in layer_ids), last, adds_one=adds_one)
