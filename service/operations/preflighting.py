"""The looks and judgements before a launch: side by side on the node, without touching a GPU or a running server."""

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from service.db.tables import Launch
from service.errors import (
    GpusUnavailable,
    GpuTaken,
    InvalidInput,
    PreflightFailed,
    RemoteCommandFailed,
    RemoteError,
    SecretUnavailable,
)
from service.nodes.inventory import Gpu, Inventory
from service.nodes.placement import choose_gpus, without_launch
from service.operations import inventories, secrets
from service.operations.candidates import Candidate, model_wishes
from service.operations.control import Control
from service.operations.judging import PLACEHOLDER, judge
from service.preflights.conditions import LaunchConditions
from service.preflights.node_checks import NodeWish, check_node
from service.preflights.preflight import Preflight, TimedCheck
from service.profiles.profile import Profile
from service.remote.node import NodeSession
from service.sglang.argument_checks import check_arguments
from service.sglang.checks import Check, CheckCode, Outcome, skipped
from service.sglang.command import listening_host
from service.sglang.judgement import Judgement
from service.sglang.model_checks import check_model
from service.sglang.model_files import ModelFiles
from service.sglang.speculative.arguments import check_speculative_arguments, draft_source
from service.sglang.speculative.draft_checks import check_draft

NODE_CODES = tuple(code for code in CheckCode if code.startswith("node_"))
_T = TypeVar("_T")


async def check(control: Control, candidate: Candidate) -> Preflight:
    """Check everything about a launch; a RemoteError says why the node cannot be looked at at all.

    What another look cannot find out is `skipped` with the reason; it stops no other check.
    """
    began = control.now()
    node, profile = candidate.node, candidate.profile
    remote = await control.node_session(node)
    inventory, conditions, judgement, models = await asyncio.gather(
        _look(control, inventories.refresh(control, node)),
        _look(control, _conditions(remote, candidate)),
        _look(control, judge(control, remote, candidate)),
        _look(control, remote.read_model_files(model_wishes(profile), environment=profile.env)),
    )
    if inventory.found is None:
        raise inventory.error or RemoteCommandFailed("the node could not be looked at")
    seat = _seat(candidate, inventory.found)
    version = judgement.found.engine_version if judgement.found else None
    checks = (
        TimedCheck(_secrets(profile), 0.0),
        *_of_node(control, candidate, seat, inventory.found, conditions, version),
        *_of_arguments(profile, judgement),
        *_of_models(candidate, seat, models, version),
    )
    return Preflight(
        at=began,
        took_s=(control.now() - began).total_seconds(),
        engine_version=version,
        port=candidate.port,
        gpu_uuids=tuple(gpu.uuid for gpu in seat.gpus),
        checks=checks,
    )


def require_passed(preflight: Preflight, overridden: Collection[CheckCode]) -> None:
    """Raise PreflightFailed if a check refuses the launch and is not overridden."""
    refusing = preflight.refusing(overridden)
    if refusing:
        told = "; ".join(f"{check.code}: {check.found}" for check in refusing)
        raise PreflightFailed(told, preflight=preflight.document(overridden))


def overridden_of(launch: Launch) -> frozenset[CheckCode]:
    """Return what was overridden when this launch was asked for: a policy that repeats it keeps to that."""
    return frozenset(CheckCode(code) for code in (launch.preflight or {}).get("overridden", ()))


@dataclass(frozen=True, slots=True)
class _Look(Generic[_T]):
    """What one look found, or the error that kept it from that."""

    found: _T | None
    error: RemoteError | None
    asked_at: datetime
    answered_at: datetime

    def timed(self, checks: Iterable[Check]) -> tuple[TimedCheck, ...]:
        took_s = (self.answered_at - self.asked_at).total_seconds()
        return tuple(TimedCheck(item, took_s) for item in checks)

    def unknown(self, codes: Iterable[CheckCode]) -> tuple[TimedCheck, ...]:
        why = self.error.detail if self.error else "it is not known why"
        return self.timed(skipped(code, f"it could not be looked at: {why}") for code in codes)


async def _look(control: Control, question: Awaitable[_T]) -> _Look[_T]:
    asked_at = control.now()
    try:
        found = await question
    except RemoteError as error:
        return _Look(None, error, asked_at, control.now())
    return _Look(found, None, asked_at, control.now())


@dataclass(frozen=True, slots=True)
class _Seat:
    """The GPUs that the launch would get, or why it gets none."""

    gpus: tuple[Gpu, ...]
    problem: str | None


def _seat(candidate: Candidate, inventory: Inventory) -> _Seat:
    gpus = inventory.gpus
    if candidate.replaces is not None:
        given = {gpu["uuid"] for gpu in candidate.replaces.gpus}
        gpus = without_launch(gpus, candidate.replaces.id, given)
    try:
        chosen = choose_gpus(gpus, candidate.claims, pinned=candidate.pinned, count=candidate.gpu_count)
    except (GpusUnavailable, GpuTaken, InvalidInput) as error:
        return _Seat((), error.detail)
    return _Seat(chosen, None)


async def _conditions(remote: NodeSession, candidate: Candidate) -> LaunchConditions:
    profile = candidate.profile
    return await remote.launch_conditions(
        host=listening_host(profile), port=candidate.port, python=profile.python, paths=(), environment=profile.env
    )


def _of_node(
    control: Control,
    candidate: Candidate,
    seat: _Seat,
    inventory: Inventory,
    conditions: _Look[LaunchConditions],
    version: str | None,
) -> Iterator[TimedCheck]:
    if conditions.found is None:
        yield from conditions.unknown(NODE_CODES)
        return
    replaced = candidate.replaces
    wish = NodeWish(
        port=candidate.port,
        host=listening_host(candidate.profile),
        gpu_count=candidate.gpu_count,
        engine_version=version,
        asked_at=conditions.asked_at,
        answered_at=conditions.answered_at,
        chosen=[gpu.uuid for gpu in seat.gpus],
        problem=seat.problem,
        claims=candidate.claims,
        own_launch_id=replaced.id if replaced else None,
        own_gpu_uuids=[gpu["uuid"] for gpu in replaced.gpus] if replaced else (),
    )
    checks = check_node(inventory, conditions.found, wish, now=control.now())
    yield from conditions.timed(_claimed(candidate, check) for check in checks)


def _claimed(candidate: Candidate, found: Check) -> Check:
    """Return a check of the port as it is, or as failed when another server of Vigil has it, running or not."""
    if found.code is not CheckCode.NODE_PORT or candidate.port_holder is None:
        return found
    text = f"port {candidate.port} is held by server {candidate.port_holder}"
    return Check(found.code, Outcome.FAIL, text, "give the server another port", found.facts)


def _of_arguments(profile: Profile, judgement: _Look[Judgement]) -> Iterable[TimedCheck]:
    if judgement.found is None:
        return judgement.unknown((CheckCode.ENGINE_ENVIRONMENT, CheckCode.ENGINE_ARGUMENTS))
    arguments = {**profile.server_args, **dict.fromkeys(profile.secret_args, PLACEHOLDER)}
    version = judgement.found.engine_version
    return judgement.timed(check_arguments(judgement.found, arguments, engine_version=version))


def _secrets(profile: Profile) -> Check:
    references = {**profile.secret_args, **profile.secret_env}
    try:
        secrets.resolve(references)
    except SecretUnavailable as error:
        return Check(CheckCode.PROFILE_SECRETS, Outcome.FAIL, error.detail, error.remedy_text)
    found = f"all {len(references)} can be read" if references else "the profile has none"
    return Check(CheckCode.PROFILE_SECRETS, Outcome.PASS, found)


def _of_models(
    candidate: Candidate, seat: _Seat, models: _Look[tuple[ModelFiles, ...]], version: str | None
) -> Iterator[TimedCheck]:
    """Judge the target, the speculative arguments and the draft by what was read of their directories."""
    profile = candidate.profile
    target, *drafts = models.found or (None,)
    arguments = profile.server_args
    config = target.config if target else None
    speculation = check_speculative_arguments(arguments, target=config, engine_version=version)
    yield TimedCheck(speculation, 0.0)
    if target is None:
        yield from models.unknown((CheckCode.MODEL_PATH, CheckCode.DRAFT_PATH))
        return
    free_mib = [gpu.memory_total_mib - (gpu.memory_used_mib or 0) for gpu in seat.gpus if gpu.memory_total_mib]
    yield from models.timed(
        check_model(target, arguments, engine_version=version, gpu_free_mib=free_mib, environment=profile.env)
    )
    source = draft_source(arguments, model_path=profile.model_path)
    if source is None:
        return
    draft = drafts[0] if drafts else target
    yield from models.timed(check_draft(target, draft, arguments, version, environment=profile.env))
