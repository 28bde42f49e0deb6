"""Writes a draft anew on its node under the names that one version of the engine takes."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.db.tables import Node
from service.errors import (
    CheckpointUnsound,
    DestinationExists,
    InvalidInput,
    NoRoom,
    NothingToRename,
    RemoteCommandFailed,
    RenamingUnknown,
)
from service.operations.control import Control
from service.profiles.profile import Profile
from service.remote.checkpoints import ModelWish, RenamedDraft
from service.remote.messages import Refusal
from service.remote.node import NodeSession
from service.sglang.model_files import ALL_TENSORS, ModelFiles, PathProblem
from service.sglang.speculative.mending import Mending, faults_of, mend
from service.sglang.speculative.renames import Renaming

NO_TENSORS = ()
_REFUSALS = {
    Refusal.CHECKPOINT_UNSOUND: CheckpointUnsound,
    Refusal.DESTINATION_EXISTS: DestinationExists,
    Refusal.NO_ROOM: NoRoom,
    Refusal.DIRECTORY_UNUSABLE: InvalidInput,
    Refusal.ORDER_INVALID: InvalidInput,
}


@dataclass(frozen=True, slots=True)
class RenameWish:
    """What somebody wants: the renames themselves, or the engine that shall load the result.

    Without `renames` the engine is that of `profile`, whose environment also says where the hub's cache is, else
    `engine_version`.
    """

    source: str
    destination: str
    engine_version: str | None = None
    profile: Profile | None = None
    renames: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be written: `mending` is how the renaming was found, None when it was given."""

    source: str
    renaming: Renaming
    engine_version: str | None = None
    mending: Mending | None = None


async def plan(control: Control, node: Node, wish: RenameWish) -> Plan:
    """Read the draft on its node, and return how its tensors shall be renamed; nothing is written.

    Raises InvalidInput when the source is not there, CheckpointUnsound, DestinationExists, NothingToRename,
    RenamingUnknown, or the RemoteError that kept the node from answering.
    """
    remote = await control.node_session(node)
    wishes = (ModelWish(wish.source, tensors=ALL_TENSORS), ModelWish(wish.destination, tensors=NO_TENSORS))
    environment = wish.profile.env if wish.profile else {}
    draft, destination = await remote.read_model_files(wishes, environment=environment)
    source = _require_sound(draft, wish)
    if destination.problem is not PathProblem.ABSENT:
        raise DestinationExists(f"node {node.name} has {wish.destination} already")
    if wish.renames is not None:
        faults = faults_of(wish.renames, draft)
        if faults:
            raise InvalidInput(f"renames: {'; '.join(faults[:5])}")
        return Plan(source, Renaming(wish.renames, ()))
    version = await _engine_version(remote, node, wish)
    return _mended(draft, source, version)


async def carry_out(control: Control, node: Node, wish: RenameWish, planned: Plan) -> RenamedDraft:
    """Write the renamed checkpoint; whole, or not at all. Takes as long as the copy does, 15 minutes at most.

    Raises CheckpointUnsound, DestinationExists, NoRoom, InvalidInput for a place that cannot be written, or a
    RemoteError; after RemoteTimeout or NodeUnreachable the node may still end its work.
    """
    remote = await control.node_session(node)
    try:
        return await remote.rename_draft(planned.source, wish.destination, planned.renaming.names)
    except RemoteCommandFailed as failed:
        refusal = failed.context.get("refusal")
        if not isinstance(refusal, Refusal) or refusal not in _REFUSALS:
            raise
        raise _REFUSALS[refusal](f"node {node.name}: {failed.detail}") from failed


def _require_sound(draft: ModelFiles, wish: RenameWish) -> str:
    """Return the directory of a draft whose files are all there and whole."""
    match draft.problem:
        case PathProblem.NOT_IN_CACHE:
            raise InvalidInput(f"source: {wish.source} is not in the node's cache: download it, or give a directory")
        case PathProblem.ABSENT:
            raise InvalidInput(f"source: there is no {wish.source} on the node")
        case PathProblem():
            raise InvalidInput(f"source: {wish.source} is {draft.problem.value.replace('_', ' ')}")
    if draft.absent_files:
        raise CheckpointUnsound(f"the index names files that are not there: {', '.join(draft.absent_files[:5])}")
    for file in draft.weights:
        if file.problem:
            raise CheckpointUnsound(f"{file.name}: {file.detail}")
    if draft.index is not None and draft.index.problem:
        raise CheckpointUnsound(f"the index cannot be read: {draft.index.detail}")
    return draft.directory or wish.source


async def _engine_version(remote: NodeSession, node: Node, wish: RenameWish) -> str | None:
    if wish.profile is None:
        return wish.engine_version
    version = await remote.engine_version(wish.profile.python)
    if version is None:
        raise RenamingUnknown(f"{wish.profile.python} on node {node.name} has no SGLang, so its rules are not known")
    return version


def _mended(draft: ModelFiles, source: str, version: str | None) -> Plan:
    mending = mend(draft, version)
    if mending.renaming is not None:
        return Plan(source, mending.renaming, version, mending)
    if mending.unknown is not None:
        raise RenamingUnknown(f"{source}: {mending.unknown}")
    what = f"{mending.class_name} of SGLang {mending.release} gets all that it needs from {source}"
    raise NothingToRename(f"{what} ({mending.note})" if mending.note else what)
