"""The script an engine follows: how long each phase takes, what goes wrong where, how fast it serves."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .versions import state_dir

SHIPPED = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "scripts")
PHASES = {
    "parsing_arguments": 0.1,
    "resolving_config": 0.2,
    "spawning": 0.4,
    "distributed_init": 0.4,
    "loading_weights": 1.6,
    "loading_draft_weights": 0.4,
    "allocating_kv_cache": 0.2,
    "compiling_kernels": 0.0,
    "capturing_graphs": 1.2,
    "capturing_draft_graphs": 0.6,
    "binding_http": 0.2,
    "warming_up": 0.8,
}
"""Seconds of each phase unless the script says otherwise; together about the six seconds of the default script."""
ACTIONS = ("freeze", "slow", "crash", "exit", "say")


class ScriptError(Exception):
    """A script that cannot be followed."""


class Event(NamedTuple):
    """Something that happens in `phase` once `step` of its steps are done, or `after_s` into serving."""

    do: str
    phase: str
    step: int = 0
    after_s: float = 0.0
    rank: Optional[int] = None
    """The rank it happens to; None is rank 0 for a crash, all for the rest."""
    failure: str = ""
    code: int = 1
    factor: float = 1.0
    until: Optional[int] = None
    busy: float = 0.0
    """While frozen: the share of a core that is burnt."""
    lines: Tuple[str, ...] = ()


class Script(NamedTuple):
    """All durations are in seconds, `time_scale` applied."""

    phases: Dict[str, float] = PHASES
    shards: Optional[int] = None
    """None: as many as the model directory has."""
    graphs: int = 24
    weights_mib: Optional[int] = None
    """What a rank's weights take on its GPU; None: what the files say, at most six tenths of the GPU."""
    busy: float = 0.0
    """The share of a core that each rank burns while it starts."""
    events: Tuple[Event, ...] = ()
    steps_per_s: float = 90.0
    """Decode steps a second: the tokens a second of one request without speculation."""
    prefill_tokens_per_s: float = 20000.0
    accept_lengths: Tuple[Tuple[float, float], ...] = ()
    """(seconds since ready, accept length) from then on; empty: what the draft's files deserve."""
    traffic_per_s: float = 0.0
    """Requests a second that the engine gives itself, of `traffic_tokens` tokens each."""
    traffic_tokens: int = 128
    health_latency_s: float = 0.05
    """How long a good answer of /health takes; 1 s in the real engine."""
    health_timeout_s: float = 2.0
    """After how long /health gives up; 20 s in the real engine."""
    crash_pause_s: float = 0.3
    """Between a child's death and the parent's end; 5 s in the real engine."""
    poll_s: float = 0.1
    """The pause of the loops that wait for the server to answer or for requests to drain; really 1 to 5 s."""
    has_orphans: bool = False
    """Children outlive a killed parent, as when it dies before they arm their death signal."""
    has_shared_memory: bool = True
    """Leave the segments in /dev/shm that the real engine leaves when it is killed."""

    def at(self, phase: str, step: int) -> List[Event]:
        """Return the events of a phase that are due when `step` of its steps are done."""
        return [event for event in self.events if event.phase == phase and event.step == step]

    def pace(self, phase: str, step: int) -> float:
        """Return by how much the step after `step` is slowed down."""
        factor = 1.0
        for event in self.events:
            is_in_phase = event.do == "slow" and event.phase == phase and step >= event.step
            if is_in_phase and (event.until is None or step < event.until):
                factor *= event.factor
        return factor

    def acceptance(self, since_ready_s: float, natural: float) -> float:
        """Return the accept length at an instant."""
        current = natural
        for start, length in self.accept_lengths:
            if since_ready_s >= start:
                current = length
        return current


def load_script(model_path: str) -> Script:
    """Return the script: of VIGIL_SIM_SCRIPT, of the model, of the node, or the default one. Raises ScriptError."""
    chosen = os.environ.get("VIGIL_SIM_SCRIPT")
    beside_model = os.path.join(model_path, "simulation.json")
    if not chosen and os.path.exists(beside_model):
        chosen = beside_model
    content = _read(chosen or _node_default())
    scale = float(os.environ.get("VIGIL_SIM_TIME_SCALE", content.pop("time_scale", 1.0)))
    return parse_script(content, scale=scale)


def parse_script(content: Dict[str, Any], *, scale: float) -> Script:
    """Return the script that a JSON object describes. Raises ScriptError for what it does not know."""
    values = {name: value for name, value in content.items() if name not in ("about", "phases", "events")}
    phases = {**PHASES, **content.get("phases", {})}
    if set(phases) != set(PHASES):
        raise ScriptError(f"no such phases: {sorted(set(phases) - set(PHASES))}")
    events = []
    for entry in content.get("events", ()):
        if entry.get("do") not in ACTIONS or entry.get("phase") not in (*PHASES, "serving"):
            raise ScriptError(f"not an event: {entry}")
        events.append(Event(**{**entry, "lines": tuple(entry.get("lines", ()))}))
    if "accept_lengths" in values:
        values["accept_lengths"] = tuple((float(start), float(length)) for start, length in values["accept_lengths"])
    try:
        script = Script(events=tuple(events), **values)
    except TypeError as error:
        raise ScriptError(str(error)) from None
    return _scaled(script._replace(phases=phases), scale)


def _scaled(script: Script, scale: float) -> Script:
    return script._replace(
        phases={name: seconds * scale for name, seconds in script.phases.items()},
        events=tuple(event._replace(after_s=event.after_s * scale) for event in script.events),
        accept_lengths=tuple((start * scale, length) for start, length in script.accept_lengths),
        health_latency_s=script.health_latency_s * scale,
        health_timeout_s=script.health_timeout_s * scale,
        crash_pause_s=script.crash_pause_s * scale,
        poll_s=script.poll_s * scale,
    )


def _node_default() -> str:
    try:
        with open(os.path.join(state_dir(), "default-script"), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return "default"


def _read(chosen: str) -> Dict[str, Any]:
    path = chosen if os.sep in chosen else os.path.join(SHIPPED, f"{chosen}.json")
    try:
        with open(path, encoding="utf-8") as file:
            content: Dict[str, Any] = json.load(file)
    except (OSError, ValueError) as error:
        raise ScriptError(f"cannot follow the script {chosen}: {error}") from None
    return content
