"""`vigil apply` on the embedded fleet: what differs is said and mended, what does not is left alone."""

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Operator


def fleet_file(operator: Operator, **changes: Any) -> str:
    """Write a file that names the node, one profile and two servers; `changes` replace whole kinds."""
    node = {name: value for name, value in operator.site.node().items() if name not in {"name", "trust_on_first_use"}}
    host_key = operator.vigil.get(f"/nodes/{operator.site.name}")["host_key"]["fingerprint"]
    kinds = {
        "nodes": {operator.site.name: {**node, "host_key": host_key}},
        "profiles": {"chat": operator.site.recipe()},
        "benchmarks": {
            "short": {
                "dataset": {"kind": "random_ids", "input_tokens": 64, "output_tokens": 16},
                "load": {"kind": "closed", "concurrency": 1},
            }
        },
        "servers": {
            "chat": {"profile": "chat", "node": operator.site.name, "state": "ready"},
            "spare": {"profile": "chat", "node": operator.site.name},
        },
        **changes,
    }
    return operator.write("fleet.yaml", json.dumps(kinds, indent=1))


def test_a_fleet_from_nothing_to_other_wishes(operator: Operator) -> None:
    apply = ["apply", "-f", fleet_file(operator)]
    dry = operator.run(*apply, "--dry-run", "--json")
    assert (dry.returncode, dry.stderr) == (0, "")
    steps = [(step["action"], step["name"]) for step in json.loads(dry.stdout)["steps"]]
    assert steps == [("create", "chat"), ("create", "short"), ("create", "chat"), ("create", "spare")]
    assert operator.vigil.get("/servers")["items"] == []

    done = operator.run(*apply, "--wait")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "done: + server chat: chat placed on atlas and launched\n" in done.stdout
    assert "chat is ready" in done.stderr
    again = operator.run(*apply)
    assert (again.returncode, again.stdout) == (0, "nothing to do: all 5 are as the file says\n"), again.stdout

    before = operator.vigil.get("/servers/chat")
    newer = {"profiles": {"chat": operator.site.recipe(**{"log-level": "debug"})}}
    held = operator.run("apply", "-f", fleet_file(operator, **newer))
    assert held.returncode == 1
    assert held.stdout.splitlines() == [
        "done: ~ profile chat: version 2",
        "    server_args.log-level: (nothing) -> debug",
        "done: -/+ server spare: removed and placed again",
        "    version: 1 -> 2",
        "! server chat: it runs, and differs from the file; --restart restarts it by version 2",
        "    version: 1 -> 2",
        "2 done, 1 not done, 2 as the file says",
    ]
    assert operator.vigil.get("/servers/chat")["launch"] == before["launch"]
    mended = operator.run("apply", "-f", fleet_file(operator, **newer), "--restart", "--wait")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    after = operator.vigil.get("/servers/chat")
    assert (after["state"], after["profile_version"], after["id"]) == ("ready", 2, before["id"])

    kept = fleet_file(operator, **newer, servers={"chat": {"profile": "chat", "node": "atlas", "port": 31007}})
    assert operator.run("apply", "-f", kept).returncode == 1
    moved = operator.run("apply", "-f", kept, "--restart", "--wait")
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert "spare" not in moved.stdout
    assert operator.vigil.get("/servers/chat")["port"] == 31007

    pruned = operator.run("apply", "-f", fleet_file(operator, **newer, servers={}), "--prune")
    assert pruned.returncode == 0, pruned.stdout + pruned.stderr
    assert operator.vigil.get("/servers")["items"] == []
    assert [item["name"] for item in operator.vigil.get("/profiles")["items"]] == ["chat"]


def test_what_fails_is_said_and_the_rest_is_done(operator: Operator) -> None:
    here = operator.site.name
    profiles = {"sound": operator.site.recipe(), "misspelt": operator.site.recipe(**{"tensor-paralel-size": 1})}
    servers = {
        "first": {"profile": "misspelt", "node": here, "state": "ready"},
        "lost": {"profile": "sound", "node": "nowhere"},
        "second": {"profile": "sound", "node": here},
    }
    file = fleet_file(operator, nodes={}, benchmarks={}, profiles=profiles, servers=servers)
    half = operator.run("apply", "-f", file)
    assert half.returncode == 1
    assert half.stdout.splitlines() == [
        "done: + profile sound: version 1",
        "done: + profile misspelt: version 1",
        f"failed: + server first: misspelt placed on {here} and launched",
        f"done: + server second: sound placed on {here}",
        "! server lost: neither the file nor the service has a node 'nowhere'",
        "3 done, 1 failed, 1 not done, 0 as the file says",
    ]
    assert "server first: placed, but not launched: preflight_failed: " in half.stderr
    assert f"{file}:{_line_of(file, 'nowhere')}: servers.lost.node: neither the file" in half.stderr
    profiles["misspelt"] = operator.site.recipe()
    del servers["lost"]
    file = fleet_file(operator, nodes={}, benchmarks={}, profiles=profiles, servers=servers)
    rest = operator.run("apply", "-f", file, "--wait")
    assert (rest.returncode, rest.stdout.splitlines()) == (
        0,
        [
            "done: ~ profile misspelt: version 2",
            "    server_args.tensor-paralel-size: 1 -> (nothing)",
            "done: ~ server first: launched by version 2",
            "    version: 1 -> 2",
            "2 done, 2 as the file says",
        ],
    ), rest.stderr


def test_a_node_is_taken_in_by_the_key_that_the_file_names(operator: Operator) -> None:
    node = operator.vigil.get(f"/nodes/{operator.site.name}")
    entry = {name: node[name] for name in ("address", "port", "user", "credential")}
    wrong = fleet_file(operator, nodes={"twin": {**entry, "host_key": "SHA256:" + "a" * 43}}, servers={})
    refused = operator.run("apply", "-f", wrong)
    assert (refused.returncode, "failed: + node twin" in refused.stdout) == (1, True), refused.stdout
    assert f"it offers the host key {node['host_key']['fingerprint']}, and the file names another one" in refused.stderr
    right = fleet_file(operator, nodes={"twin": {**entry, "host_key": node["host_key"]["fingerprint"]}}, servers={})
    trusted = operator.run("apply", "-f", right)
    assert (trusted.returncode, "its host key" in trusted.stdout) == (0, True), trusted.stdout + trusted.stderr
    assert operator.vigil.get("/nodes/twin")["host_key"] == node["host_key"]
    drained = fleet_file(operator, nodes={"twin": {**entry, "is_draining": True}}, servers={})
    assert operator.run("apply", "-f", drained).returncode == 0
    assert operator.vigil.get("/nodes/twin")["is_draining"]


def _line_of(path: str, text: str) -> int:
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)
