"""What a launch wants of its node, as the checks of the node need to know it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class NodeWish:
    """A launch that is wished for, and when the node was asked about it."""

    port: int
    host: str
    """Where the engine will listen: its `--host`, which is not always where it is probed."""
    gpu_count: int
    engine_version: str | None
    asked_at: datetime
    answered_at: datetime
    """When the conditions were asked for, and when the answer was here, by the control plane's clock."""
    chosen: Collection[str] = ()
    """The uuids of the GPUs that it would get; empty when it wants none or cannot have them."""
    problem: str | None = None
    """Why no GPUs could be chosen."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """The uuids of GPUs that other servers have, with their names; those of the server itself are left out."""
    own_launch_id: str | None = None
    """The launch that will be stopped first, on a restart: what it holds will be free."""
    own_gpu_uuids: Collection[str] = ()
    """The GPUs of that launch, where they are known: whoever cannot be seen there is taken for one of its own."""
