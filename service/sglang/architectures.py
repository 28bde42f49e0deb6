"""The model classes that each release of the engine registers, as found in the sources of the six known releases.

Outside of this list an engine may still serve a model: through the classes of transformers, or with a package of
classes of its own (`SGLANG_EXTERNAL_MODEL_PACKAGE`). So absence is a reason to warn, not a proof.
"""

from collections.abc import Mapping
from functools import cache

from service.sglang.releases import KNOWN_RELEASES, V0_4_9, V0_5_2, V0_5_6, V0_5_10, V0_5_16, V0_5_23
from service.sglang.versions import Version

_ADDED: Mapping[Version, str] = {
    V0_4_9: """
        BaichuanForCausalLM BertForSequenceClassification BertModel CLIPModel ChatGLMModel Cohere2ForCausalLM
        CohereForCausalLM Contriever DbrxForCausalLM DeepseekForCausalLM DeepseekV2ForCausalLM
        DeepseekV3ForCausalLM DeepseekV3ForCausalLMNextN DeepseekVL2ForCausalLM ExaoneForCausalLM
        GPT2LMHeadModel GPTBigCodeForCausalLM Gemma2ForCausalLM Gemma2ForSequenceClassification
        Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma3nForCausalLM Gemma3nForConditionalGeneration
        GemmaForCausalLM Glm4ForCausalLM Glm4MoeForCausalLM Glm4MoeForCausalLMNextN GraniteForCausalLM
        GraniteMoeForCausalLM Grok1ForCausalLM Grok1ModelForCausalLM HunYuanDenseV1ForCausalLM
        HunYuanMoEV1ForCausalLM InternLM2ForCausalLM InternLM2ForRewardModel InternLM3ForCausalLM
        InternS1ForConditionalGeneration InternVLChatModel KimiVLForConditionalGeneration Llama4ForCausalLM
        Llama4ForConditionalGeneration LlamaEmbeddingModel LlamaForCausalLM LlamaForCausalLMEagle
        LlamaForCausalLMEagle3 LlamaForClassification LlamaForSequenceClassification
        LlamaForSequenceClassificationWithNormal_Weights LlavaForConditionalGeneration LlavaLlamaForCausalLM
        LlavaMistralForCausalLM LlavaQwenForCausalLM LlavaVidForCausalLM MiMoForCausalLM MiMoMTP
        MiniCPM3ForCausalLM MiniCPMForCausalLM MiniCPMO MiniCPMV Mistral3ForConditionalGeneration
        MistralForCausalLM MistralModel MixtralForCausalLM MllamaForConditionalGeneration MultiModalityCausalLM
        Olmo2ForCausalLM OlmoForCausalLM OlmoeForCausalLM PersimmonForCausalLM Phi3ForCausalLM
        Phi3SmallForCausalLM Phi4MMForCausalLM PhiForCausalLM PhiMoEForCausalLM PixtralVisionModel
        QWenLMHeadModel QuantMixtralForCausalLM Qwen2AudioForConditionalGeneration Qwen2ForCausalLM
        Qwen2ForCausalLMEagle Qwen2ForRewardModel Qwen2ForSequenceClassification Qwen2MoeForCausalLM
        Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM
        StableLmForCausalLM TorchNativeLlamaForCausalLM TorchNativePhi3ForCausalLM TransformersForCausalLM
        VILAForConditionalGeneration XLMRobertaForSequenceClassification XLMRobertaModel XverseForCausalLM
        XverseMoeForCausalLM YiVLForCausalLM
        """,
    V0_5_2: """
        ArceeForCausalLM BailingMoeForCausalLM DeciLMForCausalLM Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM
        Ernie4_5_MoeForCausalLMMTP Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration
        GptOssForCausalLM LongcatFlashForCausalLM LongcatFlashForCausalLMNextN OPTForCausalLM
        Qwen3ForSequenceClassification Qwen3NextForCausalLM Qwen3NextForCausalLMMTP
        Step3VLForConditionalGeneration
        """,
    V0_5_6: """
        ApertusForCausalLM BailingMoEForCausalLM BailingMoeForCausalLMNextN BailingMoeV2ForCausalLM
        DeepseekOCRForCausalLM DeepseekV32ForCausalLM DotsOCRForCausalLM DotsVLMForCausalLM FalconH1ForCausalLM
        JetNemotronForCausalLM JetVLMForConditionalGeneration KimiLinearForCausalLM LLaDA2MoeModelLM
        MindSporeForCausalLM MiniMaxM2ForCausalLM Ministral3ForCausalLM MistralLarge3ForCausalLM
        MistralLarge3ForCausalLMEagle NVILAForConditionalGeneration NVILALiteForConditionalGeneration
        NemotronHForCausalLM NemotronH_Nano_VL_V2 OrionForCausalLM POINTSV15ChatModel
        PaddleOCRVLForConditionalGeneration PixtralForConditionalGeneration Qwen3OmniMoeForConditionalGeneration
        Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration Sarashina2VisionForCausalLM
        SolarForCausalLM Starcoder2ForCausalLM TeleFLMForCausalLM
        """,
    V0_5_10: """
        AfmoeForCausalLM BailingMoeV2_5ForCausalLM Ernie4_5_VLMoeForConditionalGeneration Exaone4ForCausalLM
        ExaoneMoEForCausalLM ExaoneMoEForCausalLMMTP GPTJForCausalLM Glm4MoeLiteForCausalLM
        GlmAsrForConditionalGeneration GlmMoeDsaForCausalLM GlmOcrForConditionalGeneration
        GlmOcrForConditionalGenerationNextN GraniteMoeHybridForCausalLM IQuestCoderForCausalLM
        IQuestLoopCoderForCausalLM InternS1ProForConditionalGeneration KimiK25ForConditionalGeneration
        Lfm2ForCausalLM Lfm2MoeForCausalLM Lfm2VlForConditionalGeneration LightOnOCRForConditionalGeneration
        MiDashengLMModel MiMoV2FlashForCausalLM MiMoV2MTP NemotronHForCausalLMMTP Qwen3ForRewardModel
        Qwen3_5ForCausalLMMTP Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration SDARForCausalLM
        SDARMoeForCausalLM SarvamMLAForCausalLM SarvamMoEForCausalLM Step3p5ForCausalLM Step3p5MTP
        StepVLForConditionalGeneration TransformersEmbeddingModel TransformersForSequenceClassification
        TransformersMoEEmbeddingModel TransformersMoEForCausalLM TransformersMoEForSequenceClassification
        TransformersMultiModalEmbeddingModel TransformersMultiModalForCausalLM
        TransformersMultiModalForSequenceClassification TransformersMultiModalMoEEmbeddingModel
        TransformersMultiModalMoEForCausalLM TransformersMultiModalMoEForSequenceClassification
        WhisperForConditionalGeneration
        """,
    V0_5_16: """
        Cohere2MoeForCausalLM Cohere2VisionForConditionalGeneration DFlashDraftModel DFlashLagunaForCausalLM
        DeepseekV4ForCausalLM DeepseekV4ForCausalLMDSpark DeepseekV4ForCausalLMNextN Eagle3DeepseekV2ForCausalLM
        Gemma4AssistantForCausalLM Gemma4ForCausalLM Gemma4ForConditionalGeneration
        Gemma4UnifiedAssistantForCausalLM Gemma4UnifiedForConditionalGeneration Glm4MoeLiteForCausalLMNextN
        GlmImageForConditionalGeneration GlmMoeDsaForCausalLMNextN HYV3ForCausalLM HYV3ForCausalLMNextN
        HrmTextForCausalLM InklingForConditionalGeneration InklingForConditionalGenerationMTP
        InternS2PreviewForConditionalGeneration LagunaForCausalLM LocateAnythingForConditionalGeneration
        MellumForCausalLM MiMoV2ASRForCausalLM MiMoV2ForCausalLM MiniCPMV4_6ForConditionalGeneration
        MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration MistralForCausalLMEagle
        MossVLForConditionalGeneration NemotronHPuzzleForCausalLM NemotronH_Nano_Omni_Reasoning_V3
        Qwen3ASRForConditionalGeneration Qwen3DSparkModel Qwen3MoeForCausalLMMTP Step3p7ForConditionalGeneration
        UnlimitedOCRForCausalLM VoxtralForConditionalGeneration ZayaForCausalLM
        """,
    V0_5_23: """
        BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration BailingMoeV3ForCausalLM
        BailingMoeV3VLForConditionalGeneration BeamForCausalLM Cosmos3EdgeForConditionalGeneration
        Cosmos3ForConditionalGeneration DFlash2BeamDraftModel DFlash2DraftModel DSparkDraftModel
        DSparkMiniMaxDraftModel DiffusionGemmaForBlockDiffusion Dots3NoteForCausalLM Dots3NoteForCausalLMNextN
        EmbeddingGemma2Model EmbeddingGemmaModel ExaoneMoeForCausalLM FalconMambaForCausalLM
        GigaChat35ForCausalLM GigaChat35ForCausalLMNextN Glm5NextForConditionalGeneration
        Glm5NextForConditionalGenerationNextN GraniteMoeSWAForCausalLM GraniteMoeSharedForCausalLM
        GraniteSWAForCausalLM HYV4ForCausalLM HYV4ForCausalLMNextN IQuestQ1ForCausalLM IQuestQ1MTP
        InternS2MobiusForConditionalGeneration K2HorizonForCausalLM KimiK3ForConditionalGeneration
        KimiK3LinearForCausalLM Lfm2BidirectionalModel Lfm2DSparkDraftModel LiLiCorrDraftModel LingDSparkModel
        Mamba2ForCausalLM MambaForCausalLM MiniCPMSALAForCausalLM MiniCPMV4_7ForConditionalGeneration
        MiniMaxDFlash2DraftModel MuseGlimmerAssistantModel MuseGlimmerForCausalLM
        MuseGlimmerForConditionalGeneration MuseSparkForConditionalGeneration NanbeigeForCausalLM
        NanbeigeForSequenceClassification NemotronH_Omni_Reasoning_V3 Qwen3Model Qwen3_5ForCausalLM
        Qwen3_5MoeForCausalLM Qwen4ExpForCausalLMMTP Qwen4ExpForConditionalGeneration Spark2_5ForCausalLM
        XllmForCausalLM
        """,
}
_REMOVED: Mapping[Version, str] = {V0_5_6: "VILAForConditionalGeneration"}


@cache
def architectures(release: Version) -> frozenset[str]:
    """Return the class names that a known release registers."""
    names: set[str] = set()
    for known in KNOWN_RELEASES:
        if known <= release:
            names |= set(_ADDED.get(known, "").split())
            names -= set(_REMOVED.get(known, "").split())
    return frozenset(names)


def architecture_since(name: str) -> Version | None:
    """Return the first known release that registers a class, None when none does."""
    return next((release for release, words in _ADDED.items() if name in words.split()), None)
