"""Bad input: a clear problem with a stable code, nothing half-done, nothing lost."""

import asyncio
import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import RECIPE, Api

HOSTILE = [
    "a; rm -rf /",
    "$(reboot)",
    "`id`",
    "a|b",
    "a&b",
    "../etc",
    "a b",
    "a\nb",
    "a'b",
    'a"b',
    "",
    "x" * 300,
    "Ä",
    "-x",
]


def node(**fields: Any) -> dict[str, Any]:
    return {"name": "atlas", "address": "127.0.0.1", "user": "ops", "credential": {"kind": "agent"}, **fields}


async def assert_problem(api: Api, method: str, path: str, body: object, status: int, code: str) -> Any:
    answer = await api.http.request(method, f"/api/v1{path}", json=body)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), problem
    assert problem["remedy"]
    return problem


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", ["name", "address", "user"])
async def test_a_shell_metacharacter_in_a_field_of_a_node(api: Api, field: str, text: str) -> None:
    problem = await assert_problem(api, "POST", "/nodes", node(**{field: text}), 422, "invalid_input")
    assert [error["place"] for error in problem["errors"]] == [f"body.{field}"]
    assert (await api.call("GET", "/nodes"))[1]["items"] == []


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", ["name", "profile", "node"])
async def test_a_shell_metacharacter_in_a_field_of_a_server(api: Api, field: str, text: str) -> None:
    body = {"name": "one", "profile": "p", "node": "atlas", field: text}
    await assert_problem(api, "POST", "/servers", body, 422, "invalid_input")


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        "text",
        12,
        node(port=0),
        node(port=65536),
        node(port="ssh"),
        node(nonsense=1),
        node(credential={"kind": "password", "password": "x"}),
        node(credential={"kind": "key_file"}),
        node(first_port=31000, last_port=30000),
        node(engines=["python"]),
        node(jump={"address": "x"}),
    ],
)
async def test_a_malformed_node(api: Api, body: object) -> None:
    await assert_problem(api, "POST", "/nodes", body, 422, "invalid_input")


async def test_a_body_that_is_not_json(api: Api) -> None:
    answer = await api.http.post("/api/v1/nodes", content=b"{nope", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


async def test_a_key_file_that_is_not_there(api: Api, tmp_path: Path) -> None:
    credential = {"kind": "key_file", "path": str(tmp_path / "absent")}
    await assert_problem(api, "POST", "/nodes", node(credential=credential), 422, "credential_unusable")


async def test_a_key_file_that_others_may_read(api: Api, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("x")
    key.chmod(0o644)
    problem = await assert_problem(
        api, "POST", "/nodes", node(credential={"kind": "key_file", "path": str(key)}), 422, "credential_unusable"
    )
    assert "mode 644" in problem["detail"]


async def test_a_key_file_of_a_user_who_is_not_there(api: Api) -> None:
    credential = {"kind": "key_file", "path": "~nobody-of-this-name/key"}
    await assert_problem(api, "POST", "/nodes", node(credential=credential), 422, "credential_unusable")
    await api.add_node()
    await assert_problem(api, "PATCH", "/nodes/atlas", {"credential": credential}, 422, "credential_unusable")


@pytest.mark.parametrize("text", ["\\ud800", "\\u0000"])
async def test_characters_that_no_file_or_command_takes(api: Api, text: str) -> None:
    recipe = {"python": "/opt/python", "model_path": "/m", "gpu_count": 0}
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/nodes", node(credential={"kind": "key_file", "path": "/@"})),
        ("/profiles", {"name": "p", "recipe": {**recipe, "model_path": "/@"}}),
        ("/profiles", {"name": "q", "recipe": {**recipe, "env": {"A": "@"}}}),
        ("/profiles", {"name": "r", "recipe": {**recipe, "server_args": {"chat-template": "@"}}}),
        ("/servers", {"name": "s", "profile": "p", "node": "n", "gpus": ["@"]}),
        ("/schedules", {"name": "c", "server": "s", "benchmark": "@", "cron": "0 3 * * *"}),
        ("/schedules", {"name": "c", "server": "s", "benchmark": "b", "cron": "0 3 * * *", "timezone": "@"}),
        ("/webhooks", {"url": "https://a.example/@"}),
    ]
    for path, body in bodies:
        content = json.dumps(body).replace("@", text)
        headers = {"Content-Type": "application/json"}
        answer = await api.http.post(f"/api/v1{path}", content=content, headers=headers)
        assert 400 <= answer.status_code < 500, (path, content, answer.status_code, answer.text)


@pytest.mark.parametrize("names", [{"server": ""}, {"server": "", "against": ""}, {"server": "one", "against": ""}])
async def test_a_run_on_a_server_of_no_name(api: Api, names: dict[str, str]) -> None:
    await api.add_node()
    await api.add_server("one")
    await api.call("POST", "/benchmarks", {"preset": "smoke"})
    await assert_problem(api, "POST", "/benchmark-runs", {**names, "benchmark": "smoke"}, 404, "not_found")


async def test_paths_and_queries_with_a_character_that_no_database_takes(api: Api) -> None:
    paths = (await api.http.get("/openapi.json")).json()["paths"]
    asked = 0
    for path, operations in paths.items():
        for method, operation in operations.items():
            texts = [item["name"] for item in operation.get("parameters", ()) if item["in"] == "query"]
            addresses = [re.sub(r"{\w+}", "a%00b", path)] if "{" in path else []
            addresses += [f"{re.sub(r'{[^}]+}', 'a', path)}?{name}=a%00b" for name in texts]
            for address in addresses:
                answer = await api.http.request(method, address)
                assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input"), (method, address)
                asked += 1
    assert asked > 100
    assert (await api.http.get("/api/v1/caller?unknown=a%00b")).status_code == 200


@pytest.mark.parametrize("depth", [150, 300, 900, 100_000])
async def test_a_body_that_is_very_deep(api: Api, depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    content = (
        f'{{"name": "p", "recipe": {{"python": "/p", "model_path": "/m", "gpu_count": 0, "server_args": {deep}}}}}'
    )
    answer = await api.http.post("/api/v1/profiles", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in {201, 422}, answer.text
    assert (await api.call("GET", "/profiles"))[0] == 200, "and the list can be read"


async def test_a_closed_port(api: Api) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    await assert_problem(api, "POST", "/nodes", node(port=port), 502, "node_unreachable")
    assert (await api.call("GET", "/nodes"))[1]["items"] == []


async def test_a_node_that_accepts_and_is_silent_answers_within_the_deadline(api: Api) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        async with asyncio.timeout(6):
            await assert_problem(api, "POST", "/nodes", node(port=mute.getsockname()[1]), 504, "remote_timeout")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nodes/none"),
        ("DELETE", "/nodes/none"),
        ("PATCH", "/nodes/none"),
        ("POST", "/nodes/none/refresh"),
        ("POST", "/nodes/none/drain"),
        ("GET", "/profiles/none"),
        ("DELETE", "/profiles/none"),
        ("GET", "/profiles/none/versions/1"),
        ("GET", "/servers/none"),
        ("DELETE", "/servers/none"),
        ("POST", "/servers/none/launch"),
        ("POST", "/servers/none/stop"),
        ("POST", "/servers/none/restart"),
        ("GET", "/servers/none/wait"),
        ("GET", "/servers/none/launches"),
        ("GET", "/servers?node=none"),
        ("GET", "/servers?profile=none"),
        ("GET", "/launches/ln_none"),
        ("GET", "/launches/ln_none/log"),
        ("GET", "/operations/op_none"),
        ("POST", "/operations/op_none/cancel"),
        ("GET", "/transitions?server=none"),
        ("GET", "/servers?node="),  # an unset variable of a script: not the whole fleet
        ("GET", "/servers?profile="),
        ("GET", "/transitions?server="),
        ("GET", "/transitions?node="),
        ("GET", "/transitions?launch="),
        ("GET", "/transitions?launch=nope"),
        ("GET", "/findings?server="),
        ("GET", "/findings?node="),
        ("GET", "/operations?server="),
        ("GET", "/events?server="),
        ("GET", "/events?node="),
        ("GET", "/benchmark-runs?server="),
        ("GET", "/benchmark-runs?profile="),
    ],
)
async def test_what_does_not_exist(api: Api, method: str, path: str) -> None:
    await assert_problem(api, method, path, {} if method == "PATCH" else None, 404, "not_found")


@pytest.mark.parametrize(
    "path",
    ["/servers?limit=0", "/servers?limit=201", "/servers?cursor=%00", "/servers?state=sleepy", "/transitions?since=x",
     "/servers/one/wait?timeout_s=-1", "/servers/one/wait?until=happy", "/nodes/a%20b", "/launches/..%2f..%2fetc"],
)  # fmt: skip
async def test_queries_that_break_a_rule(api: Api, path: str) -> None:
    answer = await api.http.get(f"/api/v1{path}")
    assert answer.json()["code"] in {"invalid_input", "no_such_route"}
    assert answer.status_code in {404, 422}


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"gpus": [0, 0]}, "twice"),
        ({"gpus": [0, "GPU-0"]}, "twice"),
        ({"gpus": [9]}, "no GPU 9"),
        ({"gpus": ["GPU-x"]}, "no GPU 'GPU-x'"),
        ({"gpus": [0], "gpu_count": 2}, "gpu_count is 2"),
        ({"gpu_count": 3}, "has 2"),
        ({"gpus": []}, "at least 1"),
        ({"port": 0}, "greater than or equal to 1"),
        ({"port": 70000}, "less than or equal to 65535"),
        ({"version": 0}, "greater than or equal to 1"),
    ],
)
async def test_a_wish_that_cannot_be_met(api: Api, wish: dict[str, Any], said: str) -> None:
    await api.add_node(gpus=2)
    await api.call("POST", "/profiles", {"name": "p", "recipe": RECIPE})
    body = {"name": "one", "profile": "p", "node": "atlas", **wish}
    problem = await assert_problem(api, "POST", "/servers", body, 422, "invalid_input")
    assert said in problem["detail"]
    assert (await api.call("GET", "/servers"))[1]["items"] == []


async def test_what_is_in_use_is_not_deleted(api: Api) -> None:
    await api.add_node()
    await api.add_server()
    await assert_problem(api, "DELETE", "/profiles/p", None, 409, "in_use")
    await assert_problem(api, "DELETE", "/nodes/atlas", None, 409, "in_use")
    assert (await api.call("DELETE", "/servers/one"))[0] == 204
    assert (await api.call("DELETE", "/profiles/p"))[0] == 204
    assert (await api.call("DELETE", "/nodes/atlas"))[0] == 204


async def test_a_name_that_is_taken_and_then_free_again(api: Api) -> None:
    await api.add_node()
    await api.add_server()
    body = {"name": "one", "profile": "p", "node": "atlas"}
    await assert_problem(api, "POST", "/servers", body, 409, "name_taken")
    await assert_problem(api, "POST", "/profiles", {"name": "p", "recipe": RECIPE}, 409, "name_taken")
    await api.call("DELETE", "/servers/one")
    assert (await api.call("POST", "/servers", body))[0] == 201


async def test_a_node_out_of_contact_takes_no_launch_and_says_why_at_once(api: Api) -> None:
    await api.add_node()
    await api.add_server()
    async with asyncio.timeout(10):
        problem = await assert_problem(api, "POST", "/servers/one/launch", None, 502, "node_unreachable")
    assert "out of contact" in problem["detail"]
    assert (await api.call("GET", "/servers/one"))[1]["state"] == "stopped"
    assert (await api.call("GET", "/operations"))[1]["items"] == []


async def test_the_node_has_no_port_left(api: Api) -> None:
    await api.add_node()
    await api.add_server("one")
    await api.add_server("two")
    body = {"name": "three", "profile": "p", "node": "atlas"}
    await assert_problem(api, "POST", "/servers", body, 409, "port_taken")


async def test_illegal_moves(api: Api) -> None:
    await api.add_node()
    await api.add_server()
    await assert_problem(api, "POST", "/servers/one/stop", None, 409, "illegal_move")
    await assert_problem(api, "GET", "/servers/one/wait", None, 409, "wait_pointless")


async def test_what_was_sent_is_not_repeated(api: Api) -> None:
    recipe = {**RECIPE, "server_args": {"api-key": "sk-secret-value"}, "env": {"HF_TOKEN": "hf-secret-value"}}
    answer = await api.http.post("/api/v1/profiles", json={"name": "p", "recipe": recipe})
    assert answer.status_code == 422
    assert "secret-value" not in answer.text


async def test_an_inventory_that_was_kept_before_gpus_had_warnings_is_shown(api: Api) -> None:
    await api.add_node(gpus=2)
    status, node = await api.call("GET", "/nodes/atlas")
    assert status == 200, node
    assert [gpu["warnings"] for gpu in node["inventory"]["gpus"]] == [[], []]


@pytest.mark.parametrize("content", [b"", b"null", b"{}"])
async def test_a_launch_without_wishes(api: Api, content: bytes) -> None:
    """The body may be left out, also by a client that sends null or an empty object in its place."""
    await api.add_node()
    await api.add_server()
    headers = {"Content-Type": "application/json"}
    answer = await api.http.post("/api/v1/servers/one/launch", content=content, headers=headers)
    assert answer.json()["code"] == "node_unreachable", answer.text


@pytest.mark.parametrize("body", [b"\xff\xfe{}", b'{"name": "\xe9"}'])
async def test_a_body_that_is_not_utf_8(api: Api, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await api.http.post("/api/v1/profiles", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


@pytest.mark.parametrize("address", ["a..b", f"{'a' * 64}.example", "a" * 250, "host..", "1.2.3.4.."])
async def test_a_node_with_an_address_that_no_name_server_can_be_asked_for(api: Api, address: str) -> None:
    assert (await api.call("POST", "/nodes", node(address=address)))[1]["code"] == "invalid_input"


@pytest.mark.parametrize(
    "instant", ["0.5", "2026", "1764432000", "yesterday", "0001-01-01T00:00:00%2B14:00", "9999-12-31T23:00:00-14:00"]
)
async def test_an_instant_is_a_date_and_no_number(api: Api, instant: str) -> None:
    for path in ("/transitions", "/benchmark-runs"):
        assert (await api.call("GET", f"{path}?since={instant}"))[1]["code"] == "invalid_input"
    token = {"name": "t", "role": "viewer", "expires_at": 9_999_999_999}
    assert (await api.call("POST", "/tokens", token))[1]["code"] == "invalid_input"
    assert (await api.call("GET", "/transitions?since=2026-11-29T12:00:00Z"))[0] == 200
    assert (await api.call("GET", "/transitions?since=2026-11-29"))[0] == 200


@pytest.mark.parametrize("value", [True, False, "1"])
async def test_a_number_is_no_text_and_neither_true_nor_false(api: Api, value: object) -> None:
    recipe = {"python": "/opt/python", "model_path": "/m", "gpu_count": 1}
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("/nodes", node(port=value)),
        ("/nodes", node(first_port=value)),
        ("/profiles", {"name": "p", "recipe": {**recipe, "gpu_count": value}}),
        ("/profiles", {"name": "p", "recipe": {**recipe, "restart": {"pause_s": value}}}),
        ("/profiles", {"name": "p", "recipe": {**recipe, "limits": {"start_s": value}}}),
        ("/servers", {"name": "s", "profile": "p", "node": "n", "version": value}),
        ("/servers/adopt", {"name": "s", "node": "n", "pid": value}),
        ("/preflights", {"server": "s", "version": value}),
        ("/benchmark-runs", {"server": "s", "benchmark": "b", "repeats": value}),
        ("/schedules", {"name": "s", "server": "s", "benchmark": "b", "cron": "0 3 * * *", "repeats": value}),
    ]
    for path, body in wrong:
        status, problem = await api.call("POST", path, body)
        assert (status, problem["code"]) == (422, "invalid_input"), (path, body, problem)


async def test_true_in_a_list_of_an_argument_does_not_become_a_number(api: Api) -> None:
    recipe = {"python": "/opt/python", "model_path": "/m", "gpu_count": 1, "server_args": {"cuda-graph-bs": [1, True]}}
    assert (await api.call("POST", "/profiles", {"name": "p", "recipe": recipe}))[1]["code"] == "invalid_input"


@pytest.mark.parametrize("value", ["yes", "true", 1, 0])
async def test_a_flag_is_true_or_false(api: Api, value: object) -> None:
    for path, body in (
        ("/nodes", node(trust_on_first_use=value)),
        ("/servers", {"name": "s", "profile": "p", "node": "n", "launch": value}),
        ("/nodes/n/draft-renames", {"source": "/a", "destination": "/b", "dry_run": value, "engine_version": "0.5.16"}),
        ("/schedules", {"name": "s", "server": "s", "benchmark": "b", "cron": "0 3 * * *", "is_paused": value}),
    ):
        status, problem = await api.call("POST", path, body)
        assert (status, problem["code"]) == (422, "invalid_input"), (path, problem)


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/profiles", {"GET", "POST"}), ("/profiles/p", {"GET", "PUT", "DELETE"}), ("/nodes/n/drain", {"POST"})],
)
async def test_a_method_that_is_not_there_is_told_those_that_are(api: Api, path: str, methods: set[str]) -> None:
    answer = await api.http.request("OPTIONS", f"/api/v1{path}")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == methods
