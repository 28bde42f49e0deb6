"""What speculation does for a server, as the API shows it."""

from datetime import datetime

from pydantic import BaseModel, Field

from service.clock import Instant
from service.db.tables import AcceptanceSample, Launch
from service.operations.verdicts import VerdictWatch
from service.profiles.profile import Profile
from service.profiles.speculation import speculation_terms
from service.sglang.acceptance import FloorSource, Judgement, RateDefinition, Source, Standing, rate_definition


class AcceptanceSamplePublic(BaseModel):
    """What came of the verify steps of a while; idle times have no sample."""

    at: Instant = Field(description="When the while ended.")
    window_s: float = Field(description="How long it was; older samples are merged and tell of longer ones.")
    source: Source = Field(
        description="`log`: the engine's decode lines. `metrics`: its /metrics, when its log is quiet."
    )
    accept_length: float = Field(
        description="Tokens per verify step, the bonus token included, in every version: 1.00 means that no draft "
        "token was accepted."
    )
    accept_rate: float | None = Field(description="As the version defines it, see `definition`.")
    definition: RateDefinition = Field(
        description="What `accept_rate` means, n being the number of draft tokens. `with_bonus` (0.5.6 to 0.5.10): "
        "(accepted draft tokens + bonus tokens) / (verify steps x n), which is 1/n when nothing is accepted. "
        "`drafts_only` (from 0.5.16 on): accepted draft tokens / (verify steps x (n - 1)), which is 0 then. "
        "`unknown`: a version that was not read. `none`: the version tells no rate."
    )
    verify_steps: int = Field(description="About how many; one step verifies one request.")
    generated_tokens: int = Field(description="About how many tokens came of them.")
    running_requests: int = Field(description="The most that were seen running at once.")


class AcceptancePublic(BaseModel):
    """What is thought of a server's speculation, and by what."""

    judgement: Judgement = Field(
        description="`unknown`: idle, or fewer than 200 verify steps. `ineffective`: an accept length of 1.02 or less. "
        "`below_floor`, `effective`: below the floor, or not."
    )
    message: str
    algorithm: str | None
    floor: float | None = Field(description="The accept length that it should reach; null where nobody knows one.")
    floor_source: FloorSource | None = Field(
        description="`profile`: its `limits.min_accept_length`. `hint`: Vigil's own number by algorithm and steps, "
        "from published ones; not a measurement."
    )
    newest: AcceptanceSamplePublic | None = Field(description="The newest sample of the current launch.")


def sample_public(row: AcceptanceSample, engine_version: str | None) -> AcceptanceSamplePublic:
    """Return a sample as the API shows it."""
    return AcceptanceSamplePublic.model_validate(
        {**row.model_dump(), "definition": rate_definition(engine_version)},
    )


def acceptance_public(
    launch: Launch, newest: AcceptanceSample | None, verdicts: VerdictWatch | None, now: datetime
) -> AcceptancePublic | None:
    """Return what is thought of a launch's speculation; None where it has none and shows none."""
    ledger = verdicts.acceptance if verdicts else None
    if ledger is None and newest is None and "speculative-algorithm" not in launch.recipe.get("server_args", {}):
        return None
    terms = ledger.terms if ledger else speculation_terms(Profile.model_validate(launch.recipe))
    if terms.algorithm is None and newest is None and (ledger is None or ledger.source is None):
        return None
    standing = ledger.standing(now) if ledger else Standing(Judgement.UNKNOWN, "it is not watched now")
    return AcceptancePublic(
        judgement=standing.judgement,
        message=standing.message,
        algorithm=terms.algorithm,
        floor=terms.floor.accept_length if terms.floor else None,
        floor_source=terms.floor.source if terms.floor else None,
        newest=sample_public(newest, launch.engine_version) if newest else None,
    )
