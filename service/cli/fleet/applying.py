"""Carries the steps of a plan out through the public API: one after the other, as far as each can be done."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from service.cli.asking import Api, Refused
from service.cli.client import Unreachable
from service.cli.fleet.steps import Action, Kind, Plan, Step

CONTACT_S = 60.0
"""How long a node that was just taken in may take to be reached, before something is launched on it."""
STOP_S = 4000.0
"""How long a stop may take: the longest grace that a profile may give, and the proof."""
WAIT_SLICE_S = 5.0
LOOK_EVERY_S = 0.5


class Fate(StrEnum):
    """What became of a step."""

    PLANNED = "planned"
    DONE = "done"
    FAILED = "failed"
    NOT_DONE = "not done"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step, and why where it was not done."""

    step: Step
    fate: Fate
    why: str = ""

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return {**self.step.document(), "outcome": self.fate.replace(" ", "_"), "why": self.why or None}


class StepFailed(Exception):
    """A step cannot be done, for a reason that is no answer of the service."""


@dataclass(slots=True)
class Applying:
    """One run over a plan. `tell` hears of each step once its fate is known."""

    api: Api
    tell: Callable[[Outcome], None]
    _lost: set[tuple[Kind, str]] = field(default_factory=set)
    """Nodes and profiles that are not as they should be: what needs them is not tried."""
    _new_nodes: set[str] = field(default_factory=set)
    _silence: str = ""
    """Why nothing more is tried."""

    async def carry_out(self, plan: Plan) -> list[Outcome]:
        """Do what can be done and return what became of each step; a second run goes on with what is left."""
        outcomes: list[Outcome] = []
        for step in plan.steps:
            outcome = await self._outcome(step)
            if outcome.fate is Fate.FAILED and step.kind is not Kind.SERVER:
                self._lost.add((step.kind, step.name))
            outcomes.append(outcome)
            self.tell(outcome)
        return outcomes

    async def _outcome(self, step: Step) -> Outcome:
        if self._silence or not step.is_possible:
            return Outcome(step, Fate.NOT_DONE, self._silence)
        for needed in ((Kind.NODE, step.body.get("node")), (Kind.PROFILE, step.body.get("profile"))):
            if needed in self._lost:
                return Outcome(step, Fate.NOT_DONE, f"{needed[0]} {needed[1]} is not as it should be")
        try:
            await self._do(step)
        except Unreachable as error:
            self._silence = "the service does not answer any more"
            return Outcome(step, Fate.FAILED, str(error))
        except (Refused, StepFailed) as error:
            return Outcome(step, Fate.FAILED, str(error))
        return Outcome(step, Fate.DONE)

    async def _do(self, step: Step) -> None:
        match step.kind:
            case Kind.NODE:
                await self._do_node(step)
            case Kind.SERVER:
                await self._do_server(step)
            case Kind.PROFILE | Kind.BENCHMARK:
                await self._do_definition(step)

    async def _do_node(self, step: Step) -> None:
        path = f"/nodes/{step.name}"
        match step.action:
            case Action.CREATE:
                node = await self.api.change("POST", "/nodes", dict(step.body))
                self._new_nodes.add(step.name)
                await self._trust(node, step.keys)
            case Action.TRUST:
                self._new_nodes.add(step.name)
                await self._trust(await self.api.get(path), step.keys)
            case Action.CHANGE:
                await self.api.change("PATCH", path, dict(step.body))
            case Action.DRAIN | Action.UNDRAIN:
                await self.api.change("POST", f"{path}/{step.action}")
            case _:
                await self.api.change("DELETE", path)

    async def _do_definition(self, step: Step) -> None:
        base = f"/{step.kind}s"
        match step.action:
            case Action.CREATE:
                await self.api.change("POST", base, dict(step.body))
            case Action.CHANGE:
                await self.api.change("PUT", f"{base}/{step.name}", dict(step.body))
            case _:
                await self.api.change("DELETE", f"{base}/{step.name}")

    async def _do_server(self, step: Step) -> None:
        path = f"/servers/{step.name}"
        match step.action:
            case Action.STOP:
                await self._stop(path)
            case Action.REMOVE:
                await self._remove(path, runs=step.runs)
            case Action.RESTART:
                await self.api.change("POST", f"{path}/restart", _launch_wish(step))
            case Action.LAUNCH:
                if step.runs:
                    await self._until_stopped(path)
                await self.api.change("POST", f"{path}/launch", _launch_wish(step))
            case _:
                if step.action is Action.REPLACE:
                    await self._remove(path, runs=step.runs)
                await self._place(path, step)

    async def _place(self, path: str, step: Step) -> None:
        """Place a server and then launch it, so that one whose launch is refused is there to be launched later."""
        node = str(step.body["node"])
        if node in self._new_nodes:
            await self._until_contact(node)
        await self.api.change("POST", "/servers", dict(step.body))
        if step.launches:
            try:
                await self.api.change("POST", f"{path}/launch", _launch_wish(step, with_version=False))
            except Refused as refusal:
                raise StepFailed(f"placed, but not launched: {refusal}") from refusal

    async def _remove(self, path: str, *, runs: bool) -> None:
        if runs:
            await self._stop(path)
        await self.api.change("DELETE", path)

    async def _stop(self, path: str) -> None:
        """Stop a server and wait for the proof; one that is being stopped already is only waited for."""
        try:
            await self.api.change("POST", f"{path}/stop")
        except Refused as refusal:
            if refusal.problem.get("code") != "operation_in_progress":
                raise
        await self._until_stopped(path)

    async def _until_stopped(self, path: str) -> None:
        deadline = time.monotonic() + STOP_S
        while True:
            try:
                await self.api.get(f"{path}/wait", timeout_s=WAIT_SLICE_S, until="stopped")
            except Refused as refusal:
                if refusal.problem.get("code") != "wait_timed_out" or time.monotonic() > deadline:
                    raise
            else:
                return

    async def _trust(self, node: Mapping[str, Any], keys: Collection[str]) -> None:
        """Confirm each key that is offered and named; StepFailed if another one is offered."""
        while (offered := node["offered_host_key"]) is not None:
            fingerprint = offered["fingerprint"]
            if fingerprint not in keys:
                named = "the file names another one" if keys else "the file names none"
                raise StepFailed(f"it offers the host key {fingerprint}, and {named}: compare it, then write host_key")
            node = await self.api.change("POST", f"/nodes/{node['name']}/trust", {"fingerprint": fingerprint})

    async def _until_contact(self, name: str) -> None:
        """Wait for a node that was just taken in; whether it can be launched on is the service's to say."""
        deadline = time.monotonic() + CONTACT_S
        while time.monotonic() < deadline:
            node = await self.api.get(f"/nodes/{name}")
            if node["contact"]["state"] == "ok" and node["inventory"] is not None:
                break
            await asyncio.sleep(LOOK_EVERY_S)
        self._new_nodes.discard(name)


def _launch_wish(step: Step, *, with_version: bool = True) -> dict[str, Any]:
    version = {"version": step.body["version"]} if with_version and "version" in step.body else {}
    return {**version, "override": list(step.override)}
