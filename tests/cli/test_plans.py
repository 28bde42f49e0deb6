"""What a fleet file asks for: every difference makes one step, and none makes none."""

from typing import Any

import pytest

from service.cli.differences import Change, changes_of
from service.cli.files import FileWrong, Parsed
from service.cli.fleet.plan import Present, plan
from service.cli.fleet.schema import FleetFile, fleet_of
from service.cli.fleet.steps import Action, Plan, Step

KEY, OTHER_KEY = "SHA256:" + "a" * 43, "SHA256:" + "b" * 43
RECIPE = {"python": "/opt/sglang/bin/python", "model_path": "/models/chat", "gpu_count": 2}
LOGIN = {"address": "10.0.0.7", "user": "ops", "credential": {"kind": "agent"}}


def file_of(**kinds: Any) -> FleetFile:
    return fleet_of(Parsed("fleet.yaml", kinds, {(): 1}))


def node(**fields: Any) -> dict[str, Any]:
    return {
        "name": "atlas",
        **LOGIN,
        "port": 22,
        "jump": None,
        "engines": [],
        "first_port": 30000,
        "last_port": 30999,
        "host_key": {"fingerprint": KEY},
        "offered_host_key": None,
        "is_draining": False,
        "inventory": None,
        **fields,
    }


def profile(version: int = 1, **recipe: Any) -> dict[str, Any]:
    full = file_of(profiles={"chat": {**RECIPE, **recipe}}).profiles
    assert full is not None
    return {"name": "chat", "version": version, "recipe": full["chat"].model_dump(mode="json")}


def server(**fields: Any) -> dict[str, Any]:
    return {
        "name": "one",
        "profile": "chat",
        "profile_version": 1,
        "node": "atlas",
        "port": 30000,
        "pinned_gpus": None,
        "gpu_count": 2,
        "state": "ready",
        "desired": "running",
        "reason": "became_ready",
        "operation": None,
        **fields,
    }


STOPPED = {"state": "stopped", "desired": "stopped"}
FAILED = {"state": "failed", "reason": "start_failed"}
WISH = {"profile": "chat", "node": "atlas"}


def planned(
    wish: dict[str, Any], there: dict[str, Any] | None, *, version: int = 1, restarts: bool = False
) -> list[Step]:
    present = Present(
        nodes={"atlas": node(), "borealis": node(name="borealis")},
        profiles={"chat": profile(version)},
        servers={"one": there} if there else {},
    )
    return list(plan(file_of(servers={"one": {**WISH, **wish}}), present, restarts=restarts, prunes=False).steps)


@pytest.mark.parametrize(
    ("wish", "there", "version", "action"),
    [
        ({}, None, 1, Action.CREATE),
        ({}, server(), 1, None),
        ({}, server(**STOPPED), 1, None),
        ({}, server(**FAILED), 1, None),
        ({"port": 30000, "gpu_count": 2, "version": 1}, server(), 1, None),
        ({"version": 1}, server(), 2, None),
        ({}, server(), 2, Action.HELD),
        ({"port": 30001}, server(), 1, Action.HELD),
        ({"gpus": [0, 1]}, server(), 1, Action.HELD),
        ({"gpus": [0, 1]}, server(pinned_gpus=[0, 1]), 1, None),
        ({"gpu_count": 2}, server(pinned_gpus=[0, 1]), 1, Action.HELD),
        ({"node": "borealis"}, server(**STOPPED), 1, Action.REPLACE),
        ({}, server(**STOPPED), 2, Action.REPLACE),
        ({"state": "ready"}, server(), 1, None),
        ({"state": "ready"}, server(state="starting"), 1, None),
        ({"state": "ready"}, server(state="unready"), 1, None),
        ({"state": "ready"}, server(state="stopping", desired="running"), 1, None),
        ({"state": "ready"}, server(state="stopping", desired="stopped"), 1, Action.LAUNCH),
        ({"state": "ready"}, server(**STOPPED), 1, Action.LAUNCH),
        ({"state": "ready"}, server(**STOPPED), 2, Action.LAUNCH),
        ({"state": "ready"}, server(**FAILED), 1, Action.RESTART),
        ({"state": "ready"}, server(**FAILED, operation={"kind": "restart"}), 1, None),
        ({"state": "stopped"}, server(), 1, Action.STOP),
        ({"state": "stopped"}, server(**FAILED), 1, Action.STOP),
        ({"state": "stopped"}, server(**STOPPED), 1, None),
        ({"state": "stopped", "port": 30001}, server(), 1, Action.REPLACE),
        ({"profile": "nope"}, server(), 1, Action.REFUSED),
        ({"node": "nope"}, None, 1, Action.REFUSED),
        ({"version": 3}, server(), 2, Action.REFUSED),
    ],
)
def test_each_difference_of_a_server_is_one_step(
    wish: dict[str, Any], there: dict[str, Any] | None, version: int, action: Action | None
) -> None:
    assert [step.action for step in planned(wish, there, version=version)] == ([] if action is None else [action])


@pytest.mark.parametrize(
    ("wish", "version", "action"),
    [({}, 2, Action.RESTART), ({"port": 30001}, 1, Action.REPLACE), ({"port": 30001}, 2, Action.REPLACE)],
)
def test_with_restarts_what_runs_is_mended_and_runs_again(wish: dict[str, Any], version: int, action: Action) -> None:
    (step,) = planned(wish, server(), version=version, restarts=True)
    assert (step.action, step.launches, step.is_possible) == (action, True, True)


def test_what_the_file_leaves_open_stays_when_a_server_is_placed_again() -> None:
    (step,) = planned({"port": 30001}, server(**STOPPED, pinned_gpus=[3]))
    assert (step.body["gpus"], step.body["port"], step.launches) == ([3], 30001, False)
    (step,) = planned({"gpus": [1]}, server(**STOPPED))
    assert (step.body["gpus"], step.body["port"]) == ([1], 30000)
    (moved,) = planned({"node": "borealis"}, server(**STOPPED))
    assert "port" not in moved.body
    assert "gpu_count" not in moved.body


def test_a_server_follows_the_gpus_of_its_profile() -> None:
    file = file_of(profiles={"chat": {**RECIPE, "gpu_count": 4}}, servers={"one": WISH})
    present = Present({"atlas": node()}, {"chat": profile()}, {}, {"one": server(**STOPPED)})
    steps = plan(file, present, restarts=False, prunes=False).steps
    assert [step.action for step in steps] == [Action.CHANGE, Action.REPLACE]
    assert steps[1].changes == (Change("gpu_count", 2, 4), Change("version", 1, 2))
    assert "gpu_count" not in steps[1].body
    chosen = Present({"atlas": node()}, {"chat": profile()}, {}, {"one": server(**STOPPED, gpu_count=3)})
    assert plan(file, chosen, restarts=False, prunes=False).steps[1].body["gpu_count"] == 3


TWO_GPUS = {"gpus": [{"index": 0, "uuid": "GPU-a"}, {"index": 1, "uuid": "GPU-b"}]}


@pytest.mark.parametrize(
    ("wish", "there", "words"),
    [
        ({"gpus": [0, "GPU-b"]}, None, None),
        ({"gpus": [7]}, None, "node atlas has no GPU 7"),
        ({"gpus": ["GPU-x"]}, server(**STOPPED), "node atlas has no GPU 'GPU-x'"),
        ({"gpus": [1, "GPU-b"]}, None, "gpus names a GPU twice"),
        ({"gpu_count": 3}, None, "3 GPUs are wanted and node atlas has 2"),
        ({"gpu_count": 3}, server(**STOPPED), "3 GPUs are wanted and node atlas has 2"),
        ({"gpus": [7]}, server(**STOPPED, pinned_gpus=[7]), None),
        ({"gpu_count": 3}, server(**STOPPED, gpu_count=3), None),
        ({"gpu_count": 0}, None, None),
    ],
)
def test_gpus_that_are_not_there_are_told_before_anything_is_done(
    wish: dict[str, Any], there: dict[str, Any] | None, words: str | None
) -> None:
    """The service refuses such a placement: a dry run said that it could be made so."""
    present = Present({"atlas": node(inventory=TWO_GPUS)}, {"chat": profile()}, {}, {"one": there} if there else {})
    steps = plan(file_of(servers={"one": {**WISH, **wish}}), present, restarts=False, prunes=False).steps
    assert [step.words for step in steps if step.action is Action.REFUSED] == ([] if words is None else [words])


def test_a_profile_wants_more_gpus_than_there_are() -> None:
    present = Present({"atlas": node(inventory=TWO_GPUS)}, {"chat": profile(gpu_count=4)})
    steps = plan(file_of(servers={"one": WISH}), present, restarts=False, prunes=False).steps
    assert [step.words for step in steps] == ["4 GPUs are wanted and node atlas has 2"]
    grown = file_of(profiles={"chat": {**RECIPE, "gpu_count": 4}}, servers={"one": WISH})
    there = Present({"atlas": node(inventory=TWO_GPUS)}, {"chat": profile()}, {}, {"one": server(**STOPPED)})
    steps = plan(grown, there, restarts=False, prunes=False).steps
    assert [step.action for step in steps] == [Action.CHANGE, Action.REFUSED]


def test_gpus_of_a_node_that_was_never_seen_are_nobody_s_knowledge() -> None:
    present = Present({"atlas": node(inventory=None)}, {"chat": profile()})
    steps = plan(file_of(servers={"one": {**WISH, "gpus": [7]}}), present, restarts=False, prunes=False).steps
    assert [step.action for step in steps] == [Action.CREATE]


def test_a_gpu_that_stands_twice_is_wrong_in_the_file() -> None:
    with pytest.raises(FileWrong, match="gpus names a GPU twice"):
        file_of(servers={"one": {**WISH, "gpus": [0, 0]}})


def of_node(wish: dict[str, Any], there: dict[str, Any] | None) -> list[tuple[Action, tuple[Change, ...]]]:
    present = Present(nodes={"atlas": there} if there else {})
    steps = plan(file_of(nodes={"atlas": {**LOGIN, **wish}}), present, restarts=False, prunes=False).steps
    return [(step.action, step.changes) for step in steps]


def test_nodes() -> None:
    assert of_node({}, None) == [(Action.CREATE, ())]
    assert of_node({"is_draining": True}, None) == [(Action.CREATE, ()), (Action.DRAIN, ())]
    assert of_node({}, node(port=2222, is_draining=True, engines=["/p"])) == []
    assert of_node({"port": 22, "is_draining": False}, node(port=2222, is_draining=True)) == [
        (Action.CHANGE, (Change("port", 2222, 22),)),
        (Action.UNDRAIN, ()),
    ]
    assert of_node({"first_port": 1000}, node()) == [(Action.REFUSED, (Change("first_port", 30000, 1000),))]
    jump = {**LOGIN, "address": "bastion"}
    assert of_node({"jump": jump | {"host_key": KEY}}, node(jump={**jump, "port": 22})) == []


def test_keys_of_nodes() -> None:
    offered = {"fingerprint": OTHER_KEY}
    assert of_node({"host_key": KEY}, node()) == []
    assert of_node({"host_key": OTHER_KEY}, node(host_key=None, offered_host_key=offered)) == [(Action.TRUST, ())]
    assert of_node({"host_key": OTHER_KEY}, node(offered_host_key=offered)) == [(Action.TRUST, ())]
    assert of_node({"host_key": KEY}, node(host_key=None, offered_host_key=offered)) == [(Action.REFUSED, ())]
    assert of_node({"host_key": OTHER_KEY}, node()) == [(Action.REFUSED, ())]
    assert of_node({}, node(host_key=None, offered_host_key=offered)) == []


def pruned(file: FleetFile) -> Plan:
    present = Present({"atlas": node()}, {"chat": profile()}, {}, {"one": server()})
    return plan(file, present, restarts=False, prunes=True)


def test_only_what_a_kind_leaves_out_is_pruned_and_servers_before_what_they_use() -> None:
    assert pruned(file_of()).steps == ()
    assert pruned(file_of(nodes={"atlas": LOGIN}, servers={"one": WISH})).steps == ()
    steps = pruned(file_of(nodes={}, profiles={}, servers={})).steps
    assert [(step.action, step.kind, step.name) for step in steps] == [
        (Action.REMOVE, "server", "one"),
        (Action.REMOVE, "profile", "chat"),
        (Action.REMOVE, "node", "atlas"),
    ]
    assert steps[0].runs


def test_what_gives_room_comes_before_what_takes_it() -> None:
    file = file_of(
        servers={"new": {**WISH, "state": "ready"}, "one": {**WISH, "state": "stopped"}}, profiles={"chat": RECIPE}
    )
    present = Present({"atlas": node()}, {}, {}, {"one": server()})
    steps = plan(file, present, restarts=False, prunes=False).steps
    assert [(step.action, step.name) for step in steps] == [
        (Action.CREATE, "chat"),
        (Action.STOP, "one"),
        (Action.CREATE, "new"),
    ]


def test_differences_are_told_field_by_field() -> None:
    before = {"args": {"tp-size": 4, "gone": 1, "list": [1]}, "grace": 60, "same": 1.0, "flag": 1}
    after = {"args": {"tp-size": 8, "list": [1, 2], "new": ""}, "grace": None, "same": 1, "flag": True}
    assert [str(change) for change in changes_of(before, after)] == [
        "args.tp-size: 4 -> 8",
        "args.gone: 1 -> (nothing)",
        "args.list: [1] -> [1, 2]",
        'args.new: (nothing) -> ""',
        "grace: 60 -> null",
        "flag: 1 -> true",
    ]
