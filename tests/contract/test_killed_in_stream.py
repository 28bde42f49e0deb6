"""A thousand changes with keys, and the service killed in between: each takes effect exactly once."""

import json
import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.contract.request_stream import Change, Outcome, Sender
from tests.contract.site import Site, parents_of_launch, processes_of_launch
from tests.contract.vigil import Vigil

KILLS = 5
IMPATIENT = 0.2
"""The share of callers who hang up before they are answered, and send again."""
ENGINES = ("one", "two")
STEPS = ("launch", "restart", "stop")
PROFILES, VERSIONS, SERVERS, BENCHMARKS, SCHEDULES = 150, 200, 130, 100, 100
WEBHOOKS, TESTS, TOKENS, NODES, REVOKED, REMOVED = 40, 80, 104, 10, 20, 60
SEED = random.randrange(2**31)  # noqa: S311
WORKLOAD = {
    "dataset": {"kind": "random_ids", "input_tokens": 16, "output_tokens": 8},
    "load": {"kind": "closed", "concurrency": 1},
    "num_prompts": 1,
}


@pytest.fixture
def vigil(tmp_path: Path, site: Site) -> Iterator[Vigil]:
    with Vigil(tmp_path / "vigil", environment={"VIGIL_WEBHOOK_NETWORKS": '["127.0.0.0/8"]'}) as service:
        service.post("/nodes", site.node(), expect=201)
        service.until_contact(site.name)
        yield service


def furnish(vigil: Vigil, site: Site) -> str:
    """Make what the stream changes; returns the id of the webhook that is tried."""
    recipe = site.recipe()
    for number in range(10):
        vigil.post("/profiles", {"name": f"base-{number}", "recipe": recipe}, expect=201)
    for name in (*ENGINES, *(f"old-{number}" for number in range(REMOVED))):
        port = {} if name in ENGINES else {"port": 2000}
        vigil.post("/servers", {"name": name, "profile": "base-0", "node": site.name, **port}, expect=201)
    for number in range(REVOKED):
        vigil.post("/tokens", {"name": f"old-{number}", "role": "viewer"}, expect=201)
    made = vigil.post("/webhooks", {"url": "http://127.0.0.1:9/", "kinds": ["finding_began"]}, expect=201)
    return str(made["webhook"]["id"])


def changes_of(site: Site, webhook: str, dice: random.Random) -> list[Change]:
    """Return the stream but for what is done to engines, in no order."""
    recipe, node = site.recipe(), site.node()
    hook = {"url": "http://127.0.0.1:9/", "kinds": ["finding_began"]}
    made: list[tuple[str, str, dict[str, Any] | None]] = [
        *(("POST", "/profiles", {"name": f"p-{n}", "recipe": recipe}) for n in range(PROFILES)),
        *(
            ("PUT", f"/profiles/base-{1 + n % 9}", {"recipe": {**recipe, "env": {"MARK": str(n)}}})
            for n in range(VERSIONS)
        ),
        *(
            ("POST", "/servers", {"name": f"s-{n}", "profile": "base-0", "node": site.name, "port": 2001 + n})
            for n in range(SERVERS)
        ),
        *(("POST", "/benchmarks", {"name": f"b-{n}", "workload": WORKLOAD}) for n in range(BENCHMARKS)),
        *(
            (
                "POST",
                "/schedules",
                {"name": f"c-{n}", "server": "one", "benchmark": "smoke", "cron": "0 3 * * *", "is_paused": True},
            )
            for n in range(SCHEDULES)
        ),
        *(("POST", "/webhooks", hook) for _ in range(WEBHOOKS)),
        *(("POST", f"/webhooks/{webhook}/test", None) for _ in range(TESTS)),
        *(("POST", "/tokens", {"name": f"t-{n}", "role": "viewer"}) for n in range(TOKENS)),
        *(("POST", "/nodes", {**node, "name": f"n-{n}", "trust_on_first_use": False}) for n in range(NODES)),
        *(("DELETE", f"/tokens/old-{n}", None) for n in range(REVOKED)),
        *(("DELETE", f"/servers/old-{n}", None) for n in range(REMOVED)),
    ]
    dice.shuffle(made)
    return [
        Change(f"key-{number}", *change, hang_ups_s=(dice.uniform(0, 0.2),) if dice.random() < IMPATIENT else ())
        for number, change in enumerate(made)
    ]


def drive(sender: Sender, server: str) -> dict[str, Outcome]:
    """Do to an engine what its steps say, each with a key, each after the last has ended."""
    outcomes = {}
    for number, step in enumerate(STEPS):
        change = Change(f"{server}-{number}", "POST", f"/servers/{server}/{step}", hang_ups_s=(0.02, 0.3, 0.6, 0.9))
        outcome = outcomes[change.key] = sender.send(change)
        assert outcome.answer is not None
        assert outcome.answer.status_code == 202, outcome.answer.text
        operation = outcome.answer.json()["id"]
        sender.vigil.until(f"{step} of {server} has ended", partial(has_ended, sender, operation), deadline_s=90)
    return outcomes


def has_ended(sender: Sender, operation: str) -> bool:
    """Tell whether an operation has succeeded; False while the service is away."""
    if not sender.is_up.is_set():
        return False
    try:
        with httpx2.Client(base_url=sender.vigil.url, timeout=10, trust_env=False) as http:
            state = http.get(f"/api/v1/operations/{operation}").json()["state"]
    except httpx2.HTTPError:
        return False
    assert state in {"running", "succeeded"}, state
    return bool(state == "succeeded")


def watch_processes(sender: Sender, stop: threading.Event, seen: dict[str, int]) -> None:
    """Note the most processes that were the parent of one launch's engine at once."""
    while not stop.wait(0.3):
        if not sender.is_up.is_set():
            continue
        try:
            with httpx2.Client(base_url=sender.vigil.url, timeout=10, trust_env=False) as http:
                items = http.get("/api/v1/servers", params={"limit": 200}).json()["items"]
        except httpx2.HTTPError:
            continue
        for item in items:
            if item["launch"]:
                launch = item["launch"]["id"]
                seen[launch] = max(seen.get(launch, 0), len(parents_of_launch(launch)))


def test_each_takes_effect_exactly_once(vigil: Vigil, site: Site) -> None:
    print(f"seed {SEED}")  # noqa: T201  shown when it fails
    dice = random.Random(SEED)  # noqa: S311
    webhook = furnish(vigil, site)
    changes = changes_of(site, webhook, dice)
    assert len(changes) + len(ENGINES) * len(STEPS) == 1000
    sender = Sender(vigil)
    sender.is_up.set()
    over, parents = threading.Event(), dict[str, int]()
    watching = threading.Thread(target=watch_processes, args=(sender, over, parents))
    watching.start()
    try:
        with ThreadPoolExecutor(1 + len(ENGINES)) as pool:
            driven = [pool.submit(drive, sender, server) for server in ENGINES]
            killing = pool.submit(sender.kill_at, sorted(dice.sample(range(30, 940), KILLS)), dice)
            outcomes = sender.send_all(changes)
            killing.result(120)
            for future in driven:
                outcomes |= future.result(180)
    finally:
        over.set()
        watching.join()
    tell(outcomes)
    assert {key: answer_of(item).text for key, item in outcomes.items() if not answer_of(item).is_success} == {}
    assert_repeated(sender, dice.sample(changes, 150), outcomes)
    vigil.end()
    with closing(sqlite3.connect(f"file:{vigil.directory / 'vigil.db'}?mode=ro", uri=True)) as database:
        assert_sound(database, {change.key for change in changes})
        assert_counts(database, webhook)
        assert_engines(database, parents)
    vigil.start()


def answer_of(outcome: Outcome) -> httpx2.Response:
    assert outcome.answer is not None
    return outcome.answer


def tell(outcomes: Mapping[str, Outcome]) -> None:
    """Print what the kills hit, and make sure that they hit something."""
    lost = [item for item in outcomes.values() if item.lost]
    unseen = sum(item.was_done_unseen for item in lost)
    print(f"{len(outcomes)} changes, {KILLS} kills, {len(lost)} without an answer, {unseen} of them done")  # noqa: T201
    assert lost
    assert unseen


def assert_repeated(sender: Sender, sample: Sequence[Change], outcomes: Mapping[str, Outcome]) -> None:
    """Send a sample again: the same answers, but for secrets that are shown once."""
    for change in sample:
        first, again = answer_of(outcomes[change.key]), sender.once(change)
        assert again.headers["idempotency-replayed"] == "true"
        assert (again.status_code, again.headers.get("location")) == (first.status_code, first.headers.get("location"))
        assert without_secret(again) == without_secret(first)


def without_secret(answer: httpx2.Response) -> Any:
    document = answer.json() if answer.content else None
    if isinstance(document, dict):
        return {name: value for name, value in document.items() if name not in {"token", "secret"}}
    return document


def assert_sound(database: sqlite3.Connection, keys: set[str]) -> None:
    """Find the file whole, every reference leading somewhere, and one record for each key."""
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    recorded = [key for (key,) in database.execute("SELECT key FROM idempotency_record")]
    engines = {f"{server}-{number}" for server in ENGINES for number in range(len(STEPS))}
    assert sorted(recorded) == sorted(keys | engines)
    ids = [number for (number,) in database.execute("SELECT id FROM event ORDER BY id")]
    assert ids == list(range(1, len(ids) + 1))


def assert_counts(database: sqlite3.Connection, webhook: str) -> None:
    """Find as much of everything as was asked for."""

    def count(query: str, *values: object) -> int:
        return int(database.execute(f"SELECT count(*) FROM {query}", values).fetchone()[0])  # noqa: S608

    for table, prefix, expected in (
        ("profile", "p", PROFILES), ("server", "s", SERVERS), ("benchmark", "b", BENCHMARKS),
        ("schedule", "c", SCHEDULES), ("token", "t", TOKENS), ("node", "n", NODES),
    ):  # fmt: skip
        names = [name for (name,) in database.execute(f"SELECT name FROM {table} WHERE name LIKE '{prefix}-%'")]  # noqa: S608
        assert sorted(names) == sorted(f"{prefix}-{number}" for number in range(expected)), table
    assert count("webhook") == WEBHOOKS + 1
    assert count("webhook_delivery WHERE webhook_id = ? AND kind = 'test'", webhook) == TESTS
    assert count("token WHERE name LIKE 'old-%' AND deleted_at IS NOT NULL") == REVOKED
    assert count("server WHERE name LIKE 'old-%' AND deleted_at IS NOT NULL") == REMOVED
    assert count("profile_version v WHERE NOT EXISTS (SELECT 1 FROM profile p WHERE p.id = v.profile_id)") == 0
    marks: Counter[str] = Counter()
    for number in range(1, 10):
        rows = database.execute(
            "SELECT v.number, v.recipe, p.latest_version FROM profile_version v JOIN profile p ON p.id = v.profile_id "
            "WHERE p.name = ? ORDER BY v.number",
            (f"base-{number}",),
        ).fetchall()
        assert [row[0] for row in rows] == list(range(1, rows[0][2] + 1)), "no number is left out or given twice"
        marks.update(json.loads(recipe)["env"]["MARK"] for _, recipe, _ in rows[1:])
    assert marks == Counter(str(number) for number in range(VERSIONS))


def assert_engines(database: sqlite3.Connection, parents: Mapping[str, int]) -> None:
    """Find one operation for each step, one launch and engine for each start, nothing half-done and nothing left."""
    for server in ENGINES:
        ((server_id, launch_count, state),) = database.execute(
            "SELECT id, launch_count, state FROM server WHERE name = ?", (server,)
        )
        operations = database.execute(
            "SELECT kind, state FROM operation WHERE server_id = ? ORDER BY created_at", (server_id,)
        ).fetchall()
        assert operations == [(step, "succeeded") for step in STEPS]
        launches = database.execute(
            "SELECT id, started_at, ready_at, ended_at FROM launch WHERE server_id = ? ORDER BY number", (server_id,)
        ).fetchall()
        assert len(launches) == launch_count == STEPS.count("launch") + STEPS.count("restart")
        assert all(all(row) for row in launches), "each was started, ready and ended"
        assert {parents[row[0]] for row in launches} == {1}, "one engine a launch, at every look"
        assert [pid for row in launches for pid in processes_of_launch(row[0])] == []
        moves = [
            reason
            for (reason,) in database.execute(
                "SELECT reason FROM transition WHERE server_id = ? AND subject = 'server' ORDER BY id", (server_id,)
            )
        ]
        up, down = ["launch_requested", "became_ready"], ["stop_requested", "stop_verified"]
        assert moves == [*up, *down, *up, *down]
        assert state == "stopped"
    assert database.execute("SELECT count(*) FROM gpu_claim").fetchone() == (0,)
    assert database.execute("SELECT count(*) FROM port_claim").fetchone() == (0,)
    assert database.execute("SELECT count(*) FROM operation WHERE state = 'running'").fetchone() == (0,)
