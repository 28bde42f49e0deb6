"""Which names a draft's tensors must get, so that one version of the engine loads all that the draft needs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from service.sglang.model_config import ModelConfig
from service.sglang.model_files import ModelFiles
from service.sglang.releases import known_release
from service.sglang.speculative.classes import Family, draft_class, family_of
from service.sglang.speculative.identity import too_many_layers
from service.sglang.speculative.renames import Renaming, find_renaming
from service.sglang.speculative.weight_checks import loader_for, why_not_compared
from service.sglang.speculative.weights import Match, match
from service.sglang.versions import Version

_TOLD_NAMES = 4


@dataclass(frozen=True, slots=True)
class Mending:
    """What a release needs of a draft: a renaming, or nothing, or nobody knows (`unknown` says why)."""

    class_name: str | None
    release: Version
    renaming: Renaming | None = None
    unknown: str | None = None
    note: str | None = None
    """Whose rules stand in for the version, when it was not read itself."""


def mend(draft: ModelFiles, engine_version: str | None) -> Mending:
    """Return the renaming that the check `draft_weight_keys` tells as a remedy for this version.

    Between two releases that were read, the first counts whose rules ask for a renaming: the version may follow either.
    """
    known = known_release(engine_version)
    if draft.config is None:
        return Mending(None, known.release, unknown=f"config.json: {draft.config_problem}", note=known.note)
    releases = (known.release, known.next_known) if known.next_known else (known.release,)
    found = [_mend(draft, draft.config, release, known.note) for release in releases]
    return min(found, key=lambda mending: (mending.renaming is None, mending.unknown is None))


def faults_of(renames: Mapping[str, str], draft: ModelFiles) -> tuple[str, ...]:
    """Return what is wrong with renames that somebody wishes for: names that are not there, or two that become one."""
    names = [tensor.name for tensor in draft.tensors]
    after = Counter(renames.get(name, name) for name in names)
    absent = [f"there is no tensor {old}" for old in renames if old not in set(names) and draft.has_all_tensors]
    doubled = [f"{count} tensors would be {name}" for name, count in after.items() if count > 1]
    return (*absent, *doubled)


def _mend(draft: ModelFiles, config: ModelConfig, release: Version, note: str | None) -> Mending:
    name = draft_class(config.architecture, release)
    family = family_of(name)
    why = why_not_compared(draft, config, family)
    loader = loader_for(config, name or "", release)
    if why is None and family is Family.MTP:
        why = f"{name} is a layer that comes with its target: its names are the target's"
    if why is None and loader is None:
        why = f"how SGLang {release} loads {name} is not known in detail"
    if why is None:
        why = too_many_layers(config, name, release)
    if why is not None or loader is None:
        return Mending(name, release, unknown=why, note=note)
    found = match(draft.loaded_tensors, loader)
    if not found.required_missing:
        return Mending(name, release, note=note)
    renaming = find_renaming(found, draft.loaded_tensors)
    return Mending(name, release, renaming, None if renaming else _unmendable(found), note)


def _unmendable(found: Match) -> str:
    names = [item.name for item in found.required_missing]
    more = f" and {len(names) - _TOLD_NAMES} more" if len(names) > _TOLD_NAMES else ""
    told = f"{found.loader.class_name} of SGLang {found.loader.release} gets nothing for "
    return f"{told}{', '.join(names[:_TOLD_NAMES])}{more}, and no tensor of the files is it under another name"
