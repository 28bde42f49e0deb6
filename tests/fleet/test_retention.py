"""Retention on a node: directories of old launches go, that of the last one stays, and the API says so."""

from service.db.tables import Node
from service.operations import retention
from service.operations.control import Control
from tests.fleet.conftest import World
from tests.fleet.test_benchmark_runs import define, start


async def test_logs_of_ended_launches_go_and_the_last_one_stays(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    for _ in range(2):
        await world.post("/servers/one/restart")
        await world.until("/operations?server=one&state=running", lambda page: not page["items"])
    last, *earlier = [item["id"] for item in (await world.get("/servers/one/launches"))["items"]]
    control = world.api.parts.control
    assert (await retention.clean_up(control)).counts == {}
    assert await _directories(control) == {last, *earlier}

    control.settings = control.settings.model_copy(update={"keep_launch_files_days": 0})
    assert (await retention.clean_up(control)).counts == {"launch_files": 2}
    assert await _directories(control) == {last}
    for launch in earlier:
        assert (await world.get(f"/launches/{launch}"))["files_removed_at"] is not None
        status, problem = await world.api.call("GET", f"/launches/{launch}/log")
        assert (status, problem["code"]) == (404, "not_found")
        assert "was removed from node atlas" in problem["detail"]
    assert (await world.get(f"/launches/{last}"))["files_removed_at"] is None
    assert (await world.get("/servers/one"))["state"] == "ready"
    assert (await retention.clean_up(control)).counts == {}


async def test_a_node_out_of_reach_keeps_its_directories_for_later(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    await world.post("/servers/one/restart")
    await world.until("/operations?server=one&state=running", lambda page: not page["items"])
    control = world.api.parts.control
    control.settings = control.settings.model_copy(update={"keep_launch_files_days": 0})
    world.atlas.stop()
    assert (await retention.clean_up(control)).counts == {}
    await world.atlas.start()
    await world.until_contact("atlas", "ok")
    assert (await retention.clean_up(control)).counts == {"launch_files": 1}


async def test_directories_of_benchmark_clients_go_with_the_age_of_their_run(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    await define(world)
    run = (await start(world, repeats=2))["id"]
    await world.until("/operations?server=one&state=running", lambda page: not page["items"])
    control = world.api.parts.control
    (launch,) = [item["id"] for item in (await world.get("/servers/one/launches"))["items"]]
    assert await _directories(control) == {launch, f"{run}_0_0", f"{run}_0_1"}
    control.settings = control.settings.model_copy(update={"keep_launch_files_days": 0})
    assert (await retention.clean_up(control)).counts == {"run_files": 1}
    assert await _directories(control) == {launch}
    assert (await retention.clean_up(control)).counts == {}


async def _directories(control: Control) -> set[str]:
    async with control.database.read() as session:
        node = await session.get_one(Node, next(iter(control.live.nodes)))
    remote = await control.node_session(node)
    return {found.launch_id for found in await remote.list_launches()}
