"""What goes wrong with the watch over one launch costs that launch alone, and is tried again."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import pytest

from service.db.tables import Launch, Node, Server
from service.operations import inventories
from service.operations.runner import OperationRunner
from service.remote.messages import Beat, LaunchFact, Watch
from service.remote.observing import Fact
from service.servers.observation import EffortFact, ListenerFact, ListenerOwner, ProcessFact, ProcessState
from service.servers.states import State
from service.watchers import node_watcher
from service.watchers.launch_watch import LaunchWatch
from service.watchers.node_watcher import NodeWatcher
from tests.watchers.conftest import RECIPE, Scene, add_start


class ObserverStandIn:
    """The node's end: it keeps what it is told to watch, and says what a test has it say."""

    label = "n"

    def __init__(self) -> None:
        self.watched: list[str] = []
        self.say: Callable[[Fact], None] = print
        self.watcher: NodeWatcher | None = None
        self.watching: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Have the node watched from now on."""
        assert self.watcher is not None
        self.watching = asyncio.create_task(self.watcher.run())

    def watch(self, watches: Sequence[Watch]) -> None:
        """Keep what is to be watched."""
        self.watched = sorted(watch.launch_id for watch in watches)

    async def close(self) -> None:
        """End."""


@pytest.fixture
async def node_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ObserverStandIn]:
    """Give the node's end of a watcher; sv_0 starts on the node beside sv_1, and is looked at first."""
    end = ObserverStandIn()

    async def connected(*_given: object, **_more: object) -> ObserverStandIn:
        return end

    async def observe(_connection: object, *, on_fact: Callable[[Fact], None], **_more: object) -> ObserverStandIn:
        end.say = on_fact
        return end

    monkeypatch.setattr(scene.control.connections, "get", connected)
    monkeypatch.setattr(node_watcher, "observe", observe)
    monkeypatch.setattr(inventories, "refresh", connected)
    async with scene.control.database.write() as session:
        await add_start(session, 0)  # its turn comes first
    async with scene.control.database.read() as session:
        node = await session.get_one(Node, "nd_1")
    end.watcher = NodeWatcher(scene.control, OperationRunner(scene.control), node)
    yield end
    assert end.watching is not None
    end.watching.cancel()
    await asyncio.gather(end.watching, return_exceptions=True)


async def set_recipe(scene: Scene, recipe: dict[str, object]) -> None:
    """Set the recipe of the other launch."""
    async with scene.control.database.write() as session:
        (await session.get_one(Launch, "ln_0")).recipe = recipe


async def until(is_true: Callable[[], bool]) -> None:
    """Wait for what must come within seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(4):
            while not is_true():
                await asyncio.sleep(0.02)
    assert is_true()


async def end_process(scene: Scene, end: ObserverStandIn, number: int) -> State:
    """Let the node say that a launch's process ended; returns the state of its server soon after."""
    process = ProcessFact(ProcessState.EXITED, pid=7, exit_code=1)
    end.say(LaunchFact(f"ln_{number}", scene.now(), process, ListenerFact(ListenerOwner.NONE), EffortFact()))
    for _ in range(100):
        await asyncio.sleep(0.02)
        async with scene.control.database.read() as session:
            state = (await session.get_one(Server, f"sv_{number}")).state
        if state is State.FAILED:
            break
    return state


async def test_a_recipe_that_is_refused_keeps_no_other_launch_from_being_watched(
    scene: Scene, node_end: ObserverStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    await set_recipe(scene, {**RECIPE, "of_another_release": True})
    node_end.begin()
    await until(lambda: node_end.watched == ["ln_1"])
    assert await end_process(scene, node_end, 1) is State.FAILED
    assert "launch_id=ln_0" in caplog.text


async def test_a_launch_whose_recipe_was_refused_is_watched_once_it_can_be(
    scene: Scene, node_end: ObserverStandIn
) -> None:
    await set_recipe(scene, {**RECIPE, "of_another_release": True})
    node_end.begin()
    await until(lambda: node_end.watched == ["ln_1"])
    await set_recipe(scene, RECIPE)
    scene.seconds += 60
    node_end.say(Beat(scene.now()))
    await until(lambda: node_end.watched == ["ln_0", "ln_1"])


async def test_a_turn_that_fails_costs_no_other_launch_its_turn_and_is_taken_again(
    scene: Scene, node_end: ObserverStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turn = LaunchWatch.turn

    async def broken_turn(watch: LaunchWatch) -> None:
        if watch.launch.id == "ln_0":
            raise ValueError("it cannot be judged")
        await turn(watch)

    monkeypatch.setattr(LaunchWatch, "turn", broken_turn)
    node_end.begin()
    await until(lambda: node_end.watched == ["ln_0", "ln_1"])
    assert await end_process(scene, node_end, 1) is State.FAILED
    assert "launch_id=ln_0" in caplog.text
    monkeypatch.setattr(LaunchWatch, "turn", turn)
    scene.seconds += 60
    assert await end_process(scene, node_end, 0) is State.FAILED
