"""The operators' commands against a service that runs: tables, JSON, exit codes, refusals, logs and events."""

import json
import re
import subprocess
import time

import pytest

from tests.cli.conftest import Operator
from tests.contract.vigil import free_port

ANSI = re.compile(r"\x1b\[")


def document(done: "subprocess.CompletedProcess[str]") -> object:
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_server_from_its_recipe_to_its_end(operator: Operator) -> None:
    site = operator.site
    recipe = operator.write("recipe.yaml", json.dumps(site.recipe(**{"log-level": "info"})))
    made = operator.run("profiles", "create", "tour", "-f", recipe)
    assert (made.returncode, made.stdout) == (0, "tour is at version 1\n"), made.stderr
    shown = operator.run("profiles", "show", "tour")
    again = operator.run("profiles", "update", "tour", "-f", operator.write("again.yaml", shown.stdout))
    assert again.stdout == "tour is at version 1\n", again.stderr
    placed = operator.run("servers", "create", "tour", "tour", site.name)
    assert (placed.returncode, placed.stdout.startswith(f"tour is placed on {site.name}:")) == (0, True), placed.stderr
    launched = operator.run("launch", "tour", "--wait")
    assert (launched.returncode, "tour is ready" in launched.stderr) == (0, True), launched.stderr
    refused = operator.run("launch", "tour")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("illegal_move: server tour is ready")
    listed = operator.run("servers")
    assert [line.split()[:2] for line in listed.stdout.splitlines()] == [["name", "state"], ["tour", "ready"]]
    assert not ANSI.search(listed.stdout + launched.stderr)
    facts = operator.run("servers", "show", "tour").stdout
    assert re.search(r"^profile +tour, version 1$", facts, re.MULTILINE), facts
    operator.vigil.http.put("/api/v1/profiles/tour", json={"recipe": site.recipe(**{"log-level": "debug"})})
    restarted = operator.run("restart", "tour", "--version", "2", "--wait", "--json")
    assert (restarted.returncode, json.loads(restarted.stdout)["state"]) == (0, "succeeded"), restarted.stderr
    assert "log-level: info -> debug" in operator.run("profiles", "versions", "tour").stdout
    stopped = operator.run("stop", "tour", "--wait")
    assert (stopped.returncode, "tour is stopped" in stopped.stderr) == (0, True), stopped.stderr
    assert operator.run("servers", "remove", "tour").returncode == 0
    gone = operator.run("servers", "show", "tour")
    assert (gone.returncode, gone.stderr.split(":")[0]) == (3, "not_found")


def test_read_commands_speak_the_api_s_json(operator: Operator) -> None:
    node = operator.site.name
    for arguments, path in (
        (("nodes",), "/nodes"),
        (("nodes", "show", node), f"/nodes/{node}"),
        (("profiles", "list"), "/profiles"),
        (("servers", "--contact", "ok"), "/servers"),
        (("operations", "--limit", "1"), "/operations"),
    ):
        said, told = document(operator.run(*arguments, "--json")), operator.vigil.get(path)
        assert isinstance(said, dict)
        assert said.keys() == told.keys()
    shown = operator.run("nodes", "show", node)
    assert "GPU-" in shown.stdout


def test_nodes_are_drained_and_let_go(operator: Operator) -> None:
    node = operator.site.name
    assert operator.run("nodes", "drain", node).stdout == f"{node} is draining\n"
    assert "draining" in operator.run("nodes").stdout
    assert operator.run("nodes", "undrain", node).stdout == f"{node} is taking launches\n"
    assert operator.run("nodes", "refresh", node).returncode == 0
    body = operator.site.node()
    login = f"{body['user']}@{body['address']}:{body['port']}"
    key = ["--key-file", body["credential"]["path"]]
    second = operator.run("nodes", "add", "second", login, *key)
    assert (second.returncode, second.stdout) == (0, "second is added\n"), second.stderr
    fingerprint = second.stderr.split()[-1]
    wrong = operator.run("nodes", "trust", "second", "SHA256:" + "a" * 43)
    assert (wrong.returncode, wrong.stderr.split(":")[0]) == (1, "host_key_mismatch")
    assert operator.run("nodes", "trust", "second", fingerprint).stdout == "second is trusted\n"
    assert operator.run("nodes", "remove", "second").returncode == 0
    malformed = operator.run("nodes", "add", "third", "nobody")
    assert (malformed.returncode, "USER@ADDRESS" in malformed.stderr) == (3, True)


def test_a_recipe_that_is_wrong_is_told_by_line(operator: Operator) -> None:
    recipe = "python: /p\nmodel_path: /m\ngpu_count: 1\nlimits:\n  start_s: 1\n"
    made = operator.run("profiles", "create", "wrong", "-f", "-", stdin=recipe)
    assert (made.returncode, made.stdout) == (3, "")
    assert made.stderr.startswith("standard input:5: limits.start_s: Input should be greater"), made.stderr
    short = operator.run("profiles", "create", "wrong", "-f", "-", stdin="python: /p\n")
    assert short.stderr.splitlines() == [
        "standard input:1: model_path: Field required",
        "standard input:1: gpu_count: Field required",
    ]


def test_a_refused_launch_names_the_checks_and_how_to_override_them(operator: Operator) -> None:
    operator.profile("misspelt", {"tensor-paralel-size": 1})
    operator.vigil.post("/servers", {"name": "misspelt", "profile": "misspelt", "node": operator.site.name}, expect=201)
    refused = operator.run("launch", "misspelt")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("preflight_failed: ")
    assert "--tensor-parallel-size" in refused.stderr
    command = refused.stderr.splitlines()[-1].removeprefix("if you know better: ")
    assert command == "vigil launch misspelt --override engine_arguments"
    overridden = operator.run(*command.split()[1:], "--wait")
    assert (overridden.returncode, "invalid_argument" in overridden.stderr) == (1, True), overridden.stderr
    checked = operator.run("preflight", "misspelt", operator.site.name, "--json")
    assert (checked.returncode, json.loads(checked.stdout)["outcome"]) == (1, "fail")


def test_a_log_is_followed_through_a_kill_of_the_service(operator: Operator) -> None:
    operator.profile("long", script="default")
    operator.vigil.post("/servers", {"name": "long", "profile": "long", "node": operator.site.name}, expect=201)
    assert operator.run("logs", "long").returncode == 1
    assert operator.run("launch", "long").returncode == 0
    following = operator.begin("logs", "-f", "long")
    events = operator.begin("events", "--server", "long", "--after", "0", "--json")
    assert following.stdout
    assert events.stdout
    first_line, first_event = following.stdout.readline(), events.stdout.readline()
    operator.vigil.kill()
    time.sleep(0.5)
    operator.vigil.start()
    operator.vigil.wait("long")
    assert operator.run("stop", "long", "--wait").returncode == 0
    log, beside = following.communicate(timeout=60)
    assert (following.returncode, b"trying again" in beside) == (0, True), beside
    whole = operator.begin("logs", "long").communicate(timeout=60)[0]
    assert first_line + log == whole
    assert operator.run("logs", "long", "--tail", "2").stdout.splitlines() == whole.decode().splitlines()[-2:]
    assert operator.run("logs", "long", "--contains", "fired up").stdout.count("\n") == 1
    time.sleep(0.5)
    events.terminate()
    told = [json.loads(line) for line in [first_event, *events.communicate(timeout=30)[0].splitlines()]]
    ids = [event["id"] for event in told]
    assert ids == sorted(set(ids))
    moves = [event["document"]["after"] for event in told if event["kind"] == "server_moved"]
    assert moves == ["starting", "ready", "stopping", "stopped"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("servers", "nonsense"), 3),
        (("launch",), 3),
        (("launch", "nobody"), 3),
        (("nodes", "--contact", "happy"), 3),
        (("logs", "nobody"), 3),
        (("events", "--kind", "nonsense"), 3),
        (("servers", "--url", "ftp://nobody"), 3),
        (("apply", "-f", "/nowhere.yaml"), 3),
    ],
)
def test_a_wrong_command_ends_with_three(operator: Operator, arguments: tuple[str, ...], code: int) -> None:
    done = operator.run(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_nobody_answers(operator: Operator) -> None:
    for arguments in (("servers",), ("launch", "x"), ("events",)):
        done = operator.run(*arguments, "--url", f"http://127.0.0.1:{free_port()}")
        assert (done.returncode, done.stdout) == (2, "")
        assert "does not answer" in done.stderr
        assert len(done.stderr.splitlines()) == 1
