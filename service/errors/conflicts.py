"""Requests that contradict what is there."""

from service.errors.root import RequestRejected


class Conflict(RequestRejected):
    """The request contradicts what is there."""

    status = 409


class NameTaken(Conflict):
    """Another resource of the same kind has this name."""

    code = "name_taken"
    title = "This name is taken"
    remedy = "Choose another name, or change the existing resource."


class InUse(Conflict):
    """A resource cannot be removed while others depend on it."""

    code = "in_use"
    title = "It is still in use"
    remedy = "Remove what uses it first."


class IllegalMove(Conflict):
    """The server's state has no such move."""

    code = "illegal_move"
    title = "The server's state does not allow this"
    remedy = "Look at the server's state, and stop or launch it first."


class GpuTaken(Conflict):
    """A wanted GPU is claimed by another server."""

    code = "gpu_taken"
    title = "Another server holds a GPU that this one wants"
    remedy = "Stop the holder, or give this server other GPUs."


class PortTaken(Conflict):
    """The wanted port is claimed by another server of the node."""

    code = "port_taken"
    title = "Another server holds this port"
    remedy = "Stop the holder, or give this server another port."


class GpusUnavailable(Conflict):
    """No set of GPUs satisfies the request; the detail says why for each."""

    code = "gpus_unavailable"
    title = "The node has no GPUs for this"
    remedy = "Free GPUs, ask for fewer, or refresh the node if its picture is old."


class OperationInProgress(Conflict):
    """Another operation on the same server has not ended."""

    code = "operation_in_progress"
    title = "Another operation on this server is under way"
    remedy = "Wait for it, or cancel it."


class Overtaken(Conflict):
    """Somebody else changed it at the same moment."""

    code = "overtaken"
    title = "Somebody else changed it at the same moment"
    remedy = "Look at the present state and decide again."


class NodeDraining(Conflict):
    """The node takes no new launches."""

    code = "node_draining"
    title = "The node is draining"
    remedy = "Choose another node, or POST /nodes/{node}/undrain."


class LeftoversRemain(Conflict):
    """The last launch of the server is not proven gone."""

    code = "leftovers_remain"
    title = "The last launch has left something behind"
    remedy = "POST /servers/{server}/stop to sweep and prove again; the launch says what is left."


class PreflightFailed(Conflict):
    """A check before the launch failed and the request did not override it; `context['preflight']` has them all."""

    code = "preflight_failed"
    title = "A check before the launch failed"
    remedy = "Mend what the failed checks name, or name their codes in `override` if you know better."


class HostKeyMismatch(Conflict):
    """The fingerprint that was confirmed is not the one the node offers."""

    code = "host_key_mismatch"
    title = "The fingerprint does not match the node's key"
    remedy = "Compare with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the node's console."


class NothingToRename(Conflict):
    """The engine takes every name of the draft as it is."""

    code = "nothing_to_rename"
    title = "There is nothing to rename"
    remedy = "Use the draft as it is with this version of the engine."


class RenamingUnknown(Conflict):
    """The draft cannot be judged, or no change of names mends it; the detail says which."""

    code = "renaming_unknown"
    title = "Which names would mend this draft is not known"
    remedy = "Export the draft again, or give the renames yourself: old name to new name."


class CheckpointUnsound(Conflict):
    """A file of the checkpoint is cut off, garbled, or changed while it was copied."""

    code = "checkpoint_unsound"
    title = "The checkpoint is not sound"
    remedy = "Copy or download the file that the detail names again."


class DestinationExists(Conflict):
    """Something has the name of the new directory already."""

    code = "destination_exists"
    title = "The destination exists already"
    remedy = "Give a new name: nothing is ever written over."


class NoRoom(Conflict):
    """The node's disk has no room for the copy."""

    code = "no_room"
    title = "There is no room on the node's disk"
    remedy = "Make room, or give a destination on another disk of the node."


class AlreadyImported(Conflict):
    """The same result file was imported for the same profile; `context['run']` is the run."""

    code = "already_imported"
    title = "This file was imported before"
    remedy = "Use the run that the context names: counted twice, a measurement would seem surer than it is."


class WaitPointless(Conflict):
    """The awaited state will not come by itself."""

    code = "wait_pointless"
    title = "Waiting is pointless"
    remedy = "Read the detail; launch, stop or mend the server."
