"""Renames of drafts as the API shows them."""

from typing import Annotated, Self

from pydantic import BaseModel, Field, StrictBool, StringConstraints, model_validator

from service.api.schemas.common import Name, Request, shown
from service.api.schemas.nodes import AbsolutePath
from service.operations.draft_renaming import Plan, RenameWish
from service.profiles.profile import Profile
from service.remote.checkpoints import RenamedDraft

RENAMES_LIMIT = 20_000
TensorName = Annotated[str, StringConstraints(min_length=1, max_length=512)]
DraftPath = Annotated[str, StringConstraints(pattern=r"^[^\x00\r\n-][^\x00\r\n]*$", max_length=4096)]
EngineVersion = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}([.a-z+-][0-9A-Za-z.+-]{0,40})?$")
]


class DraftRenameCreate(Request):
    """A draft to be written anew: for the engine of a profile, for a version of it, or with names of your own."""

    model_config = shown(
        {"source": "/models/draft-eagle3", "destination": "/models/draft-midlayer", "profile": "llama", "dry_run": True}
    )

    source: DraftPath = Field(
        description="The draft's directory on the node, or a hub id that is in the node's cache.",
        examples=["/models/draft-eagle3"],
    )
    destination: AbsolutePath = Field(
        description="The new directory. It must not exist; what it lies in must.", examples=["/models/draft-midlayer"]
    )
    profile: Name | None = Field(default=None, description="Rename for the engine of this profile.")
    engine_version: EngineVersion | None = Field(
        default=None, description="Rename for this version of SGLang.", examples=["0.5.10.post1"]
    )
    renames: dict[TensorName, TensorName] | None = Field(
        default=None,
        min_length=1,
        max_length=RENAMES_LIMIT,
        description="Old name to new name; what is not named keeps its name.",
        examples=[{"layers.0.hidden_norm.weight": "midlayer.hidden_norm.weight"}],
    )
    dry_run: StrictBool = Field(default=False, description="Only say what would be renamed.")

    @model_validator(mode="after")
    def _one_reason(self) -> Self:
        if sum(given is not None for given in (self.profile, self.engine_version, self.renames)) != 1:
            raise ValueError("give one of profile, engine_version and renames")
        return self

    def wish(self, profile: Profile | None) -> RenameWish:
        """Return what is wanted, with the profile that it names."""
        return RenameWish(self.source, self.destination, self.engine_version, profile, self.renames)


class DraftRenamePublic(BaseModel):
    """What was renamed, or would be."""

    node: str
    source: str = Field(description="The draft's directory; of a hub id, its snapshot.")
    destination: str
    is_written: bool = Field(description="False for a dry run.")
    engine_version: str | None = Field(description="The version that was renamed for; null with names of your own.")
    judged_as: str | None = Field(description="The release by whose rules the names were found.")
    note: str | None = Field(description="Why that release stands in for the version.")
    draft_class: str | None = Field(description="The engine's class that loads the draft.")
    patterns: list[str] = Field(description="In short.", examples=[["layers.0.* -> midlayer.* (10)"]])
    renames: dict[str, str]
    still_missing: list[str] = Field(description="What no file holds under any name; export the draft again for it.")
    weight_files: list[str]
    weight_bytes: int | None = Field(description="The size of the weight files.")
    left_out: list[str] = Field(description="Files and folders of the source that no loader reads; not copied.")


def draft_rename_public(node: str, wish: RenameWish, plan: Plan, renamed: RenamedDraft | None) -> DraftRenamePublic:
    """Return a rename as the API shows it; without `renamed` nothing was written."""
    mending = plan.mending
    return DraftRenamePublic(
        node=node,
        source=plan.source,
        destination=renamed.destination if renamed else wish.destination,
        is_written=renamed is not None,
        engine_version=plan.engine_version,
        judged_as=str(mending.release) if mending else None,
        note=mending.note if mending else None,
        draft_class=mending.class_name if mending else None,
        patterns=list(plan.renaming.patterns),
        renames=dict(plan.renaming.names),
        still_missing=list(plan.renaming.still_missing),
        weight_files=list(renamed.weight_files) if renamed else [],
        weight_bytes=renamed.weight_bytes if renamed else None,
        left_out=list(renamed.left_out) if renamed else [],
    )
