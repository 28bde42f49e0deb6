"""Which classes can be a draft, for which algorithm and since which release, and what a target becomes as one."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.sglang.architectures import architecture_since, architectures
from service.sglang.releases import KNOWN_RELEASES, V0_4_9, V0_5_2, V0_5_6, V0_5_10, V0_5_16, V0_5_23
from service.sglang.versions import Version


class Family(StrEnum):
    """The kinds of drafts, by how their weights are laid out."""

    EAGLE3 = "eagle3"
    EAGLE3_MLA = "eagle3_mla"
    EAGLE = "eagle"
    """EAGLE-1 and EAGLE-2."""
    MTP = "mtp"
    """Layers that predict further tokens, trained with the target and usually packed with it."""
    OTHER_DRAFT = "other_draft"
    """A class that drafts, whose weights are not compared."""
    MODEL = "model"
    """An ordinary model."""
    SPECULATORS = "speculators"
    """The library's own format, which no release reads."""
    UNKNOWN = "unknown"


FAMILIES: Mapping[str, Family] = {
    "LlamaForCausalLMEagle3": Family.EAGLE3,
    "Eagle3DeepseekV2ForCausalLM": Family.EAGLE3_MLA,
    "LlamaForCausalLMEagle": Family.EAGLE,
    "Qwen2ForCausalLMEagle": Family.EAGLE,
    "MistralForCausalLMEagle": Family.OTHER_DRAFT,
    "MistralLarge3ForCausalLMEagle": Family.OTHER_DRAFT,
    "Eagle3Speculator": Family.SPECULATORS,
    "Eagle3DraftModel": Family.SPECULATORS,
}
EAGLE3_FAMILIES = frozenset({Family.EAGLE3, Family.EAGLE3_MLA})


@dataclass(frozen=True, slots=True)
class Switch:
    """What a target class becomes when its own directory is opened as a draft, from a release on."""

    since: Version
    draft_class: str


_DEEPSEEK = "DeepseekV3ForCausalLMNextN"
_QWEN3_5 = "Qwen3_5ForCausalLMMTP"
_BAILING = "BailingMoeForCausalLMNextN"
_NEMOTRON = "NemotronHForCausalLMMTP"
SWITCHES: Mapping[str, tuple[Switch, ...]] = {
    "DeepseekV3ForCausalLM": (Switch(V0_4_9, _DEEPSEEK),),
    "DeepseekV32ForCausalLM": (Switch(V0_5_16, _DEEPSEEK),),
    "GlmMoeDsaForCausalLM": (Switch(V0_5_10, _DEEPSEEK), Switch(V0_5_16, "GlmMoeDsaForCausalLMNextN")),
    "DeepseekV4ForCausalLM": (Switch(V0_5_16, "DeepseekV4ForCausalLMNextN"),),
    "Glm4MoeForCausalLM": (Switch(V0_4_9, "Glm4MoeForCausalLMNextN"),),
    "Glm4MoeLiteForCausalLM": (
        Switch(V0_5_10, "Glm4MoeForCausalLMNextN"),
        Switch(V0_5_16, "Glm4MoeLiteForCausalLMNextN"),
    ),
    "Glm5NextForConditionalGeneration": (Switch(V0_5_23, "Glm5NextForConditionalGenerationNextN"),),
    "GlmOcrForConditionalGeneration": (Switch(V0_5_10, "GlmOcrForConditionalGenerationNextN"),),
    "LongcatFlashForCausalLM": (Switch(V0_5_2, "LongcatFlashForCausalLMNextN"),),
    "MiMoForCausalLM": (Switch(V0_4_9, "MiMoMTP"),),
    "MiMoV2FlashForCausalLM": (Switch(V0_5_10, "MiMoV2MTP"),),
    "MiMoV2ForCausalLM": (Switch(V0_5_16, "MiMoV2MTP"),),
    "Step3p5ForCausalLM": (Switch(V0_5_10, "Step3p5MTP"),),
    "Step3p7ForConditionalGeneration": (Switch(V0_5_16, "Step3p5MTP"),),
    "InklingForConditionalGeneration": (Switch(V0_5_16, "InklingForConditionalGenerationMTP"),),
    "GigaChat35ForCausalLM": (Switch(V0_5_23, "GigaChat35ForCausalLMNextN"),),
    "BailingMoeForCausalLM": (Switch(V0_5_6, _BAILING),),
    "BailingMoeV2ForCausalLM": (Switch(V0_5_6, _BAILING),),
    "BailingMoeV2_5ForCausalLM": (Switch(V0_5_10, _BAILING),),
    "BailingMoeV3ForCausalLM": (Switch(V0_5_23, _BAILING),),
    "Ernie4_5_MoeForCausalLM": (Switch(V0_5_2, "Ernie4_5_MoeForCausalLMMTP"),),
    "Qwen3NextForCausalLM": (Switch(V0_5_2, "Qwen3NextForCausalLMMTP"),),
    "Qwen3MoeForCausalLM": (Switch(V0_5_16, "Qwen3MoeForCausalLMMTP"),),
    "Qwen3_5ForConditionalGeneration": (Switch(V0_5_10, _QWEN3_5),),
    "Qwen3_5MoeForConditionalGeneration": (Switch(V0_5_10, _QWEN3_5),),
    "Qwen3_5ForCausalLM": (Switch(V0_5_23, _QWEN3_5),),
    "Qwen3_5MoeForCausalLM": (Switch(V0_5_23, _QWEN3_5),),
    "InternS2PreviewForConditionalGeneration": (Switch(V0_5_16, _QWEN3_5),),
    "InternS2MobiusForConditionalGeneration": (Switch(V0_5_23, _QWEN3_5),),
    "Qwen4ExpForConditionalGeneration": (Switch(V0_5_23, "Qwen4ExpForCausalLMMTP"),),
    "ExaoneMoEForCausalLM": (Switch(V0_5_10, "ExaoneMoEForCausalLMMTP"),),
    "ExaoneMoeForCausalLM": (Switch(V0_5_23, "ExaoneMoEForCausalLMMTP"),),
    "NemotronHForCausalLM": (Switch(V0_5_10, _NEMOTRON),),
    "NemotronHPuzzleForCausalLM": (Switch(V0_5_16, _NEMOTRON),),
    "NemotronH_Omni_Reasoning_V3": (Switch(V0_5_23, _NEMOTRON),),
    "HYV3ForCausalLM": (Switch(V0_5_16, "HYV3ForCausalLMNextN"),),
    "HYV4ForCausalLM": (Switch(V0_5_23, "HYV4ForCausalLMNextN"),),
}
"""Facts: drafts §2.6, and `_config_draft_model` of the six releases."""

_OWN_DRAFT: Mapping[Version, str] = {
    V0_4_9: "DeepseekV3ForCausalLM Glm4MoeForCausalLM",
    V0_5_6: """DeepseekV32ForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM MistralLarge3ForCausalLM
        PixtralForConditionalGeneration""",
    V0_5_10: "Glm4MoeLiteForCausalLM GlmMoeDsaForCausalLM BailingMoeV2_5ForCausalLM",
    V0_5_16: "DeepseekV4ForCausalLM HYV3ForCausalLM",
    V0_5_23: "HYV4ForCausalLM Qwen4ExpForConditionalGeneration",
}
"""Targets for which the engine fills in their own path as the draft's (facts: SGLang §2.1)."""


def draft_class(architecture: str | None, release: Version) -> str | None:
    """Return the class that a directory with this architecture becomes when a release opens it as a draft."""
    known = [switch for switch in SWITCHES.get(architecture or "", ()) if switch.since <= release]
    return known[-1].draft_class if known else architecture


def switch_since(architecture: str) -> Version | None:
    """Return the first release that opens this target as its own draft, None when none does."""
    switches = SWITCHES.get(architecture, ())
    return switches[0].since if switches else None


def family_of(class_name: str | None) -> Family:
    """Return what kind of draft a class is."""
    if class_name is None:
        return Family.UNKNOWN
    if class_name in FAMILIES:
        return FAMILIES[class_name]
    if class_name in _MTP_CLASSES or class_name.endswith("NextN"):
        return Family.MTP
    if class_name.endswith(_OTHER_DRAFT_ENDINGS):
        return Family.OTHER_DRAFT
    return Family.MODEL if architecture_since(class_name) else Family.UNKNOWN


def is_registered(class_name: str, release: Version) -> bool:
    """Tell whether a release has a class of this name."""
    return class_name in architectures(release)


def fills_in_own_draft(architecture: str | None, release: Version) -> bool:
    """Tell whether the engine takes the target's own directory when no draft is named."""
    words = [word for known in KNOWN_RELEASES if known <= release for word in _OWN_DRAFT.get(known, "").split()]
    return architecture in words


_MTP_CLASSES = frozenset(switch.draft_class for switches in SWITCHES.values() for switch in switches)
_OTHER_DRAFT_ENDINGS = (
    "AssistantForCausalLM",
    "AssistantModel",
    "DraftModel",
    "DSparkModel",
    "DSpark",
    "Eagle",
    "MTP",
)
