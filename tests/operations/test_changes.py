"""Changes wake who waits for them, miss none, and are not kept for ever."""

import asyncio
import tracemalloc

from service.operations.changes import Changes


async def test_what_is_long_over_takes_no_memory() -> None:
    changes = Changes()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(100_000):
        changes.publish(f"log ln_{number:017d}")
        changes.count(f"ln_{number:017d}")
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 5_000_000


async def test_a_change_is_not_missed_however_many_others_come_between() -> None:
    changes = Changes()
    changes.publish("one")
    seen = changes.count("one", "two")
    changes.publish("two")
    for number in range(50_000):
        changes.publish(str(number))
    assert await changes.wait(["one", "two"], after=seen, timeout_s=0)


async def test_only_its_own_changes_wake_a_waiter() -> None:
    changes = Changes()
    for number in range(50_000):
        changes.publish(str(number))
    seen = changes.count("one")
    waiting = asyncio.create_task(changes.wait(["one"], after=seen, timeout_s=5))
    await asyncio.sleep(0)
    changes.publish("two")
    assert changes.count("one") == seen
    assert not waiting.done()
    changes.publish("one")
    assert await waiting
    assert not await changes.wait(["one"], after=changes.count("one"), timeout_s=0)
