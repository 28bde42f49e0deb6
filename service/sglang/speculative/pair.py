"""A target and the draft that a launch would use with it, judged by the rules of one release."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.sglang.model_config import ModelConfig
from service.sglang.model_files import ModelFiles, Tensor
from service.sglang.releases import V0_5_10
from service.sglang.serving_arguments import ServingArguments
from service.sglang.speculative.arguments import algorithm_of
from service.sglang.speculative.classes import EAGLE3_FAMILIES, Family, draft_class, family_of
from service.sglang.speculative.eagle3 import Eagle3Sizes
from service.sglang.versions import Version

_UNLISTED_LAYER_FILE = "mtp.safetensors"
_TAKE_UNLISTED_LAYER = frozenset({"Glm4MoeForCausalLMNextN", "Glm4MoeLiteForCausalLMNextN"})
"""Classes whose loader adds that file when the index forgot it, from 0.5.10 on (facts: drafts §1.3)."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Everything that the checks of a draft look at; both configurations could be read."""

    target: ModelFiles
    draft: ModelFiles
    target_config: ModelConfig
    draft_config: ModelConfig
    arguments: ServingArguments
    environment: Mapping[str, str]
    release: Version

    @property
    def algorithm(self) -> str | None:
        """Return the algorithm in capitals."""
        return algorithm_of(self.arguments)

    @property
    def class_name(self) -> str | None:
        """Return the class that this release makes of the draft."""
        return draft_class(self.draft_config.architecture, self.release)

    @property
    def family(self) -> Family:
        """Return what kind of draft it is."""
        return family_of(self.class_name)

    @property
    def is_eagle3(self) -> bool:
        """Tell whether it is an EAGLE-3 draft, whatever the algorithm says."""
        return self.family in EAGLE3_FAMILIES

    @property
    def is_eagle(self) -> bool:
        """Tell whether it is a draft of any EAGLE: one that takes the target's hidden states through `fc`."""
        return self.is_eagle3 or self.family is Family.EAGLE

    @property
    def is_inside_target(self) -> bool:
        """Tell whether the draft is a layer in the target's own directory."""
        return self.draft.path == self.target.path

    @property
    def sizes(self) -> Eagle3Sizes:
        """Return the sizes of an EAGLE-3 draft."""
        return Eagle3Sizes(self.draft_config, self.release)

    @property
    def layer_tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors among which a draft layer is looked for."""
        adds = self.class_name in _TAKE_UNLISTED_LAYER and self.release >= V0_5_10
        added = [item for item in self.draft.tensors if adds and item.file == _UNLISTED_LAYER_FILE]
        return tuple(dict.fromkeys([*self.draft.loaded_tensors, *added]))
