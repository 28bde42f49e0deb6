"""Hooks of a run: they put names and ids that exist into requests, so that more is met than 404; and count the answers.

Only what the generator meant to be right is changed, and three times out of four. What a request removes or moves is
made before it, and what it made is removed after it: the last request finds the same world as the first.
"""

import itertools
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx2
import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode

from tests.benchmarks.tool_files import sglang_line
from tests.fuzz.world import WORKLOAD

ROOT = Path(os.environ["VIGIL_FUZZ_ROOT"])
KNOWN: dict[str, Any] = json.loads((ROOT / "known.json").read_text())
COUNTS = ROOT / "answers.jsonl"
AUTHORIZED = {"Authorization": f"Bearer {KNOWN['token']}"}
API = httpx2.Client(base_url=f"{KNOWN['url']}/api/v1", headers=AUTHORIZED, timeout=60, trust_env=False)
NAMES = {
    "node": "atlas",
    "profile": "steady",
    "server": "serving",
    "benchmark": "small",
    "schedule": "nightly",
    "token": "somebody",
    "webhook": KNOWN["webhook"],
    "delivery": KNOWN["delivery"],
    "launch": KNOWN["launch"],
    "operation": KNOWN["operation"],
    "run": KNOWN["measured"],
    "number": 1,
}
WEBHOOK = {"url": "http://127.0.0.1:9/", "kinds": ["finding_began"]}
RECIPE = {"python": "/opt/python", "model_path": "/m", "gpu_count": 0}
SCHEDULE = {"server": "serving", "benchmark": "small", "cron": "0 5 * * *", "is_paused": True}
SLOW_TURNS = 3
_count = itertools.count(1)
_launches, _stops, _cancels = itertools.count(), itertools.count(), itertools.count()
_turns: dict[str, int] = defaultdict(int)


def label_of(case: Any) -> str:
    """Return method and path of the operation that a request was made for."""
    return f"{case.operation.method.upper()} {case.operation.path}"


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:  # noqa: ARG001  as the hook is called
    label = label_of(case)
    _turns[label] += 1
    if case.meta is None or case.method.upper() != case.operation.method.upper():
        return
    if _is_right(case, ParameterLocation.QUERY):
        _shorten_wait(case.query)
    if _turns[label] % 4:
        _name_existing(case, label)
    prepare = PREPARATIONS.get(label)
    if prepare is not None and _is_right(case, ParameterLocation.PATH):
        prepare(case)


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:  # noqa: ARG001
    with COUNTS.open("a") as file:
        print(json.dumps([label_of(case), case.method.upper(), response.status_code]), file=file)
    if not 200 <= response.status_code < 300:
        return
    tidy = TIDYING.get(label_of(case))
    if tidy is not None and case.method.upper() == case.operation.method.upper():
        tidy(case, response)


def _name_existing(case: Any, label: str) -> None:
    if _is_right(case, ParameterLocation.PATH):
        _name_things(case)
    if _is_right(case, ParameterLocation.QUERY) and case.query:
        _name_in(case.query, label)
    if _is_right(case, ParameterLocation.BODY):
        _fill_body(case, label)


def _is_right(case: Any, location: ParameterLocation) -> bool:
    component = case.meta.components.get(location)
    return component is None or component.mode is GenerationMode.POSITIVE


def _name_things(case: Any) -> None:
    for name in case.path_parameters or {}:
        case.path_parameters[name] = NAMES[name]


def _name_in(query: dict[str, Any], label: str) -> None:
    for name in query:
        if name in {"node", "profile", "server", "benchmark", "launch", "run"}:
            query[name] = NAMES[name]
        elif name in {"baseline", "candidate"}:
            query[name] = KNOWN["runs"][0:2] if name == "baseline" else KNOWN["runs"][2]
    if label.startswith("GET /api/v1/benchmark-history"):
        query.pop("series", None)
        query.pop("metric", None)


def _shorten_wait(query: dict[str, Any] | None) -> None:
    if query and "timeout_s" in query:
        query["timeout_s"] = 0.1


def _fill_body(case: Any, label: str) -> None:
    if isinstance(case.body, dict):
        for name in case.body:
            if name in {"node", "profile", "server", "benchmark"} and isinstance(case.body[name], str):
                case.body[name] = NAMES[name]
    fill = BODIES.get(label)
    if fill is not None:
        fill(case)


def _unique(prefix: str) -> str:
    return f"{prefix}-{next(_count)}"


def _make(path: str, body: object = None) -> Any:
    """Make a thing through the API."""
    answer = API.post(path, json=body)
    assert answer.is_success, (path, answer.text)
    return answer.json()


def _new_node(*, trusted: bool = True) -> Any:
    return _make("/nodes", {**KNOWN["node"], "name": _unique("node"), "trust_on_first_use": trusted})


def _say(**body: Any) -> Any:
    def fill(case: Any) -> None:
        case.body = dict(body)

    return fill


def _say_anew(prefix: str, **body: Any) -> Any:
    def fill(case: Any) -> None:
        case.body = {**body, "name": _unique(prefix)}

    return fill


def _fill_named(case: Any) -> None:
    if isinstance(case.body, dict):
        case.body["name"] = _unique("thing")


def _fill_preflight(case: Any) -> None:
    case.body = {"server": "resting"} if next(_count) % 2 else {"profile": "steady", "node": "atlas"}


def _fill_import(case: Any) -> None:
    case.body = _unique_file()
    case.query.clear()


def _unique_file() -> bytes:
    return sglang_line(duration=9.0 + next(_count) / 1000)


BODIES = {
    "POST /api/v1/nodes": _say_anew("node", **KNOWN["node"]),
    "POST /api/v1/profiles": _fill_named,
    "POST /api/v1/servers": _say_anew("server", profile="steady", node="atlas"),
    "POST /api/v1/servers/{server}/launch": _say(),
    "POST /api/v1/servers/{server}/restart": _say(),
    "POST /api/v1/preflights": _fill_preflight,
    "POST /api/v1/benchmark-runs": _say(server="serving", benchmark="small"),
    "POST /api/v1/benchmark-runs/import": _fill_import,
    "POST /api/v1/benchmarks": _fill_named,
    "POST /api/v1/schedules": _say_anew("schedule", server="serving", benchmark="small", cron="0 4 * * *"),
    "PATCH /api/v1/schedules/{schedule}": _say(repeats=3),
    "POST /api/v1/tokens": _fill_named,
    "POST /api/v1/webhooks": _say(**WEBHOOK),
    "PUT /api/v1/profiles/{profile}/baseline": _say(run=KNOWN["runs"][1]),
}
"""What stands in the place of a body that the generator meant to be right, but that names what is not there."""


def _target(name: str, value: str) -> Any:
    def prepare(case: Any) -> None:
        case.path_parameters[name] = value

    return prepare


def _fresh(name: str, path: str, body: Any) -> Any:
    def prepare(case: Any) -> None:
        case.path_parameters[name] = _make(path, {**body, "name": _unique("fresh")})["name"]

    return prepare


def _fresh_server(case: Any) -> None:
    made = _make("/servers", {"name": _unique("fresh"), "profile": "steady", "node": "borealis", "gpu_count": 0})
    case.path_parameters["server"] = made["server"]["name"]


def _fresh_node(case: Any) -> None:
    case.path_parameters["node"] = _new_node()["name"]


def _untrusted_node(case: Any) -> None:
    node = _new_node(trusted=False)
    case.path_parameters["node"] = node["name"]
    if isinstance(case.body, dict):
        case.body["fingerprint"] = node["offered_host_key"]["fingerprint"]


def _fresh_webhook(case: Any) -> None:
    made = _make("/webhooks", WEBHOOK)
    case.path_parameters["webhook"] = made["webhook"]["id"]


def _fresh_run(case: Any) -> None:
    answer = API.post("/benchmark-runs/import", content=_unique_file())
    assert answer.is_success, answer.text
    case.path_parameters["run"] = answer.json()["id"]


def _running_operation(case: Any) -> None:
    """Restart a server, and name that operation; where it is busy, an operation that has ended."""
    answer = API.post("/servers/resting/restart") if next(_cancels) < SLOW_TURNS else None
    if answer is not None and answer.status_code == 202:
        case.path_parameters["operation"] = answer.json()["id"]


def _at_rest(case: Any) -> None:
    """Name a server that is stopped, the first times; stopping takes seconds."""
    case.path_parameters["server"] = "resting"
    if next(_launches) < SLOW_TURNS:
        API.post("/servers/resting/stop")
        API.get("/servers/resting/wait", params={"until": "stopped", "timeout_s": 30})


def _running(case: Any) -> None:
    """Name a server that is not stopped, the first times."""
    case.path_parameters["server"] = "resting"
    if next(_stops) < SLOW_TURNS:
        API.post("/servers/resting/launch")


PREPARATIONS = {
    "PUT /api/v1/profiles/{profile}": _target("profile", "changing"),
    "PATCH /api/v1/nodes/{node}": _fresh_node,
    "POST /api/v1/nodes/{node}/trust": _untrusted_node,
    "POST /api/v1/servers/{server}/launch": _at_rest,
    "POST /api/v1/servers/{server}/stop": _running,
    "POST /api/v1/servers/{server}/restart": _target("server", "resting"),
    "POST /api/v1/operations/{operation}/cancel": _running_operation,
    "DELETE /api/v1/nodes/{node}": _fresh_node,
    "DELETE /api/v1/profiles/{profile}": _fresh("profile", "/profiles", {"recipe": RECIPE}),
    "DELETE /api/v1/servers/{server}": _fresh_server,
    "DELETE /api/v1/benchmarks/{benchmark}": _fresh("benchmark", "/benchmarks", {"workload": WORKLOAD}),
    "DELETE /api/v1/benchmark-runs/{run}": _fresh_run,
    "DELETE /api/v1/schedules/{schedule}": _fresh("schedule", "/schedules", SCHEDULE),
    "DELETE /api/v1/tokens/{token}": _fresh("token", "/tokens", {"role": "viewer"}),
    "DELETE /api/v1/webhooks/{webhook}": _fresh_webhook,
}
"""What is made, or named, before a request that removes or moves it."""


def _remove(path: str, place: tuple[str, ...]) -> Any:
    def tidy(_case: Any, response: Any) -> None:
        document = response.json()
        for part in place:
            document = document[part]
        API.delete(f"{path}/{document}")

    return tidy


def _undrain(case: Any, _response: Any) -> None:
    API.post(f"/nodes/{case.path_parameters['node']}/undrain")


TIDYING = {
    "POST /api/v1/nodes": _remove("/nodes", ("name",)),
    "PATCH /api/v1/nodes/{node}": _remove("/nodes", ("name",)),
    "POST /api/v1/nodes/{node}/trust": _remove("/nodes", ("name",)),
    "POST /api/v1/servers": _remove("/servers", ("server", "name")),
    "POST /api/v1/webhooks": _remove("/webhooks", ("webhook", "id")),
    "POST /api/v1/schedules": _remove("/schedules", ("name",)),
    "POST /api/v1/nodes/{node}/drain": _undrain,
}
"""What is removed after a request that made it: nodes cost connections, servers hold ports."""
