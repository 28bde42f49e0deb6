"""The stream of events: in order, resumable, filtered, with no silent loss."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from service.api import event_stream
from service.api.event_stream import follow
from service.api.schemas.events import AnyEvent, StreamedEvent
from service.app import create_app
from service.db import events as event_queries
from service.db import retention
from service.db.retention import Bound
from service.db.tables import GpuClaim
from service.nodes.contact import Contact
from service.operations import event_feed, events
from service.operations.control import Control
from service.operations.event_documents import DOCUMENTS, ContactChanged, VerdictChanged
from service.operations.event_feed import Wanted
from service.servers.event import EventKind
from service.settings import Access, Settings
from tests.event_streams import Frame, Served, ids, reading, served

START = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(create_app(Settings(access=Access.OPEN, state_dir=tmp_path))) as running:
        yield running


async def tell(
    control: Control, *numbers: int, server_id: str | None = "sv_1", node_id: str = "nd_1", broken: bool = False
) -> None:
    """Write one transaction with an event for each number; the number is in its message."""
    async with control.database.write() as session:
        for number in numbers:
            events.publish(
                session,
                EventKind.VERDICT_CHANGED,
                node_id=node_id,
                server_id=server_id,
                launch_id=None,
                document=VerdictChanged(before="progressing", after="slow", message=str(number)),
                at=START + timedelta(seconds=number),
            )
        if broken:
            session.add(GpuClaim(node_id="nobody", gpu_uuid="GPU-0", server_id="nobody"))


async def forget(control: Control, before: datetime) -> None:
    """Let old events go as the service does."""
    async with control.database.write() as session:
        keys = await retention.old_rows(session, retention.EVENTS, Bound(before), after=None)
        await retention.remove_rows(session, retention.EVENTS, keys)


def numbers(frames: list[Frame]) -> list[int]:
    return [int(frame.data["document"]["message"]) for frame in frames]


async def test_a_reader_gets_what_happens_from_now_on_in_order(service: Served) -> None:
    control = service.parts.control
    await tell(control, 1)
    await control.feed.wait(0, timeout_s=5)
    async with reading(service.http) as reader:
        assert reader.response.headers["content-type"].startswith("text/event-stream")
        await tell(control, 2, 3)
        await tell(control, 4)
        got = await reader.events(3)
    assert numbers(got) == [2, 3, 4]
    assert ids(got) == [2, 3, 4]
    assert {frame.kind for frame in got} == {"verdict_changed"}
    assert got[0].data["id"] == 2
    StreamedEvent.model_validate(got[0].data)


async def test_a_reader_comes_back_where_it_was(service: Served) -> None:
    control = service.parts.control
    async with reading(service.http) as reader:
        await tell(control, 1, 2)
        await reader.events(2)
    await tell(control, 3, 4)
    async with reading(service.http, last_id=reader.last_id) as again:
        assert numbers(await again.events(2)) == [3, 4]
    async with reading(service.http, after=1, last_id=3) as browser:
        assert numbers(await browser.events(1)) == [4]  # the header is younger than the address


async def test_a_reader_that_leaves_before_the_first_event_loses_none(service: Served) -> None:
    async with reading(service.http) as reader:
        assert reader.last_id == 0
    await tell(service.parts.control, 1)
    async with reading(service.http, last_id=0) as again:
        assert numbers(await again.events(1)) == [1]


async def test_the_end_of_the_service_loses_and_repeats_nothing(tmp_path: Path) -> None:
    settings = Settings(access=Access.OPEN, state_dir=tmp_path)
    async with served(create_app(settings)) as first, reading(first.http) as reader:
        await tell(first.parts.control, *range(1, 4))
        seen = await reader.events(3)
        await tell(first.parts.control, 4)
    async with served(create_app(settings)) as second:
        await tell(second.parts.control, 5)
        async with reading(second.http, last_id=reader.last_id) as again:
            seen += await again.events(2)
    assert numbers(seen) == [1, 2, 3, 4, 5]


async def test_filters(service: Served) -> None:
    control = service.parts.control
    await tell(control, 1)
    await tell(control, 2, node_id="nd_2")
    await tell(control, 3, server_id="sv_2")
    async with control.database.write() as session:
        document = ContactChanged(before=Contact.OK, after=Contact.LOST, code="node_unreachable", message="4")
        events.publish(
            session,
            EventKind.CONTACT_CHANGED,
            node_id="nd_1",
            server_id=None,
            launch_id=None,
            document=document,
            at=START,
        )
    await control.feed.wait(3, timeout_s=5)

    async def got(wanted: Wanted) -> list[int]:
        stream = follow(control, wanted, after=0)
        await anext(stream)
        chunk = (await anext(stream)).decode()
        await stream.aclose()
        return [int(line.removeprefix("id: ")) for line in chunk.splitlines() if line.startswith("id: ")]

    assert await got(Wanted()) == [1, 2, 3, 4]
    assert await got(Wanted(node_id="nd_2")) == [2]
    assert await got(Wanted(server_id="sv_2")) == [3]
    assert await got(Wanted(kinds=frozenset({EventKind.CONTACT_CHANGED}))) == [4]
    async with reading(service.http, kind=["contact_changed", "phase_changed"], after=0) as reader:
        assert (await reader.event()).id == 4


@pytest.mark.parametrize(
    ("params", "headers", "status"),
    [
        ({"server": "nobody"}, {}, 404),
        ({"node": "nobody"}, {}, 404),
        ({"kind": "nonsense"}, {}, 422),
        ({"after": -1}, {}, 422),
        ({"after": 2**63}, {}, 422),
        ({}, {"Last-Event-ID": "x"}, 422),
    ],
)
async def test_what_is_wrong_is_told_before_the_stream(
    service: Served, params: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    answer = await service.http.get("/api/v1/events", params=params, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_what_is_not_kept_any_more_is_told(service: Served) -> None:
    control = service.parts.control
    await tell(control, *range(1, 11))
    await forget(control, START + timedelta(seconds=6))
    control.feed._held.clear()  # as if many more had come since
    control.feed._held_after = 10
    await control.feed.wait(9, timeout_s=5)
    async with reading(service.http, last_id=2) as reader:
        gap = await reader.event()
        assert (gap.kind, gap.data["after"], gap.data["resume_after"], gap.id) == ("gap", 2, 4, 4)
        StreamedEvent.model_validate(gap.data)
        assert ids(await reader.events(6)) == [5, 6, 7, 8, 9, 10]
    async with reading(service.http, last_id=5) as unharmed:
        assert (await unharmed.event()).id == 6


async def test_pruning_all_keeps_the_last_so_that_ids_go_on(service: Served) -> None:
    control = service.parts.control
    await tell(control, 1, 2, 3)
    await forget(control, START + timedelta(days=1))
    await tell(control, 4)
    async with control.database.read() as session:
        assert await event_queries.id_range(session) == (3, 4)


async def test_an_id_that_was_never_given_is_told(service: Served) -> None:
    await tell(service.parts.control, 1)
    await service.parts.control.feed.wait(0, timeout_s=5)
    async with reading(service.http, last_id=99) as reader:
        gap = await reader.event()
        assert (gap.kind, gap.data["resume_after"]) == ("gap", 1)
        assert "another database" in gap.data["detail"]
        await tell(service.parts.control, 2)
        assert numbers([await reader.event()]) == [2]


async def test_a_change_that_is_undone_tells_nothing(service: Served) -> None:
    control = service.parts.control
    with pytest.raises(IntegrityError):
        await tell(control, 1, broken=True)
    await tell(control, 2)
    async with reading(service.http, after=0) as reader:
        assert numbers([await reader.event()]) == [2]


async def test_a_kind_has_no_document_but_its_own(service: Served) -> None:
    async with service.parts.control.database.write() as session:
        with pytest.raises(TypeError, match="another document"):
            events.publish(
                session,
                EventKind.SERVER_MOVED,
                node_id="nd_1",
                server_id=None,
                launch_id=None,
                document=VerdictChanged(before="a", after="b", message="1"),
                at=START,
            )


async def test_a_reader_far_behind_is_served_from_the_database(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than is held in memory, and more than one page: each event once, in order, while others are written."""
    monkeypatch.setattr(event_feed, "HELD", 20)
    monkeypatch.setattr(event_feed, "READ_AT_ONCE", 7)
    control = service.parts.control
    await tell(control, *range(1, 101))
    async with reading(service.http, after=0) as reader:
        got = await reader.events(30)
        for number in range(101, 161):
            await tell(control, number)
        got += await reader.events(130)
    assert numbers(got) == list(range(1, 161))
    assert len(control.feed._held) == 20


async def test_a_page_from_the_database_ends_where_the_feed_is(service: Served) -> None:
    """Else a reader would be ahead of the feed, and his own id one that was never given."""
    control = service.parts.control
    await control.feed.close()
    await tell(control, *range(1, 6))
    control.feed._newest = control.feed._held_after = 3
    stretch = await control.feed.after(1)
    assert (stretch.begins_after, [told.id for told in stretch.told]) == (1, [2, 3])


async def test_what_was_before_a_start_is_held_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand readers that come back after a restart must not read the database a thousand times."""
    monkeypatch.setattr(event_feed, "HELD", 20)
    monkeypatch.setattr(event_feed, "READ_AT_ONCE", 7)
    settings = Settings(access=Access.OPEN, state_dir=tmp_path)
    async with served(create_app(settings)) as first:
        await tell(first.parts.control, *range(1, 51))
    async with served(create_app(settings)) as second:
        assert [told.id for told in second.parts.control.feed._held] == list(range(31, 51))
        assert second.parts.control.feed.newest_id == 50


async def test_a_quiet_stream_says_that_it_lives_and_how_far_it_looked(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_S", 0.2)
    control = service.parts.control
    async with reading(service.http, kind="phase_changed") as reader:
        await tell(control, 1, 2)
        async with asyncio.timeout(5):
            while reader.last_id != 2:
                assert (await reader.frame()).kind is None


async def test_a_reader_that_takes_nothing_is_let_go(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "STALLED_S", 0.3)
    seats, control = service.parts.gate.seats, service.parts.control
    host, port = service.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(f"GET /api/v1/events?after=0 HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    text = "x" * 200_000
    async with asyncio.timeout(20):
        while seats.count() == 0:
            await asyncio.sleep(0.01)
        while seats.count() == 1:
            async with control.database.write() as session:
                document = VerdictChanged(before="a", after="b", message=text)
                events.publish(
                    session,
                    EventKind.VERDICT_CHANGED,
                    node_id="nd_1",
                    server_id=None,
                    launch_id=None,
                    document=document,
                    at=START,
                )
            await asyncio.sleep(0.05)
    writer.close()


async def test_a_fault_of_the_feed_ends_it_not(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "RETRY_S", 0.05)
    control = service.parts.control
    read, faults = event_queries.events_after, [RuntimeError("first"), RuntimeError("second")]

    async def read_badly(*arguments: Any, **options: Any) -> Any:
        if faults:
            raise faults.pop()
        return await read(*arguments, **options)

    async with reading(service.http) as reader:
        monkeypatch.setattr(event_queries, "events_after", read_badly)
        await tell(control, 1)
        assert numbers([await reader.event()]) == [1]
    assert faults == []


def test_every_kind_has_its_document_and_its_model() -> None:
    assert set(DOCUMENTS) == set(EventKind)
    models = {model.model_fields["kind"].annotation.__args__[0]: model for model in AnyEvent.__args__}
    assert set(models) == set(EventKind)
    assert {kind: model.model_fields["document"].annotation for kind, model in models.items()} == DOCUMENTS


def test_the_operators_guide_explains_every_kind() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    assert [kind for kind in EventKind if f"`{kind}`" not in guide] == []
