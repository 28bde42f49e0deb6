"""Webhooks: signed, sent until they are taken, and never to an address that Vigil must not call."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from service.api.schemas.events import StreamedEvent, WebhookTest
from service.app import create_app
from service.db import webhooks as webhook_queries
from service.db.event_tables import WebhookDelivery
from service.operations import notifying, webhook_secrets
from service.operations.notifying import Outcome
from service.servers.event import DeliveryState
from service.settings import Access, Settings
from service.watchers import webhook_delivery
from tests.api.test_events import tell
from tests.event_streams import PATIENCE_S, Served, served
from tests.receivers import Delivery, Receiver, is_genuine, receiving

LOOPBACK = ["127.0.0.0/8", "::1/128"]


def settings(directory: Path, **others: Any) -> Settings:
    return Settings(access=Access.OPEN, state_dir=directory, webhook_networks=LOOPBACK, **others)  # type: ignore[arg-type]


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(notifying, "FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr(webhook_delivery, "REST_S", 0.1)
    async with served(create_app(settings(tmp_path))) as running:
        yield running


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


async def call(service: Served, method: str, path: str, body: object = None, *, expect: int, key: str = "") -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    answer = await service.http.request(method, f"/api/v1/webhooks{path}", json=body, headers=headers)
    assert answer.status_code == expect, answer.text
    return answer.json() if answer.content else None


async def create(service: Served, url: str, **wish: object) -> tuple[str, str]:
    """Make a webhook and return its id and its secret."""
    made = await call(service, "POST", "", {"url": url, **wish}, expect=201)
    return made["webhook"]["id"], made["secret"] or ""


async def deliveries(service: Served, webhook: str, **params: str) -> list[dict[str, Any]]:
    """Return the deliveries of a webhook, newest first."""
    answer = await service.http.get(f"/api/v1/webhooks/{webhook}/deliveries", params=params)
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def until_all(service: Served, webhook: str, state: str) -> list[dict[str, Any]]:
    """Wait until every delivery is so, and return them."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await deliveries(service, webhook)) or {item["state"] for item in found} != {state}:
            await asyncio.sleep(0.02)
    return found


async def test_an_event_comes_signed_and_once(service: Served, receiver: Receiver) -> None:
    webhook, secret = await create(service, receiver.url)
    await tell(service.parts.control, 1, 2)
    got = await receiver.until(2)
    found = await until_all(service, webhook, "delivered")
    assert [item.document["document"]["message"] for item in got] == ["1", "2"]
    StreamedEvent.model_validate(got[0].document)
    assert all(is_genuine(item, secret, now_s=time.time()) for item in got)
    assert got[0].headers["content-type"] == "application/json"
    assert {item["id"] for item in found} == {item.id for item in got}
    assert [(item["attempts"], item["status"], item["error"], item["next_at"]) for item in found] == [
        (1, 204, None, None)
    ] * 2
    assert all(item["duration_ms"] >= 0 for item in found)
    await tell(service.parts.control, 3)
    assert len(await receiver.until(3)) == 3


async def test_a_forged_or_replayed_delivery_is_told_from_a_genuine_one(service: Served, receiver: Receiver) -> None:
    _, secret = await create(service, receiver.url)
    await tell(service.parts.control, 1)
    (genuine,) = await receiver.until(1)
    now_s = time.time()
    assert is_genuine(genuine, secret, now_s=now_s)
    assert not is_genuine(replace(genuine, body=genuine.body + b" "), secret, now_s=now_s)
    assert not is_genuine(replace(genuine, headers={**genuine.headers, "webhook-id": "wd_other"}), secret, now_s=now_s)
    later = {**genuine.headers, "webhook-timestamp": str(int(now_s) + 1)}
    assert not is_genuine(replace(genuine, headers=later), secret, now_s=now_s)
    assert not is_genuine(genuine, secret, now_s=now_s + 301), "a replay of an old delivery"
    assert not is_genuine(genuine, "whsec_" + "QUFB" * 11, now_s=now_s)


def test_the_signature_is_that_of_the_standard() -> None:
    """The example of the Standard Webhooks' own documentation."""
    at = datetime.fromtimestamp(1614265330, UTC)
    headers = webhook_secrets.headers(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", at, b'{"test": 2432232314}'
    )
    assert headers["webhook-timestamp"] == "1614265330"
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_receiver_that_is_away_gets_it_later_once(service: Served, receiver: Receiver) -> None:
    down = [500, 503, 302, 404]
    receiver.answer = lambda _: down.pop(0) if down else 200
    receiver.headers = {"Location": f"{receiver.url}/elsewhere"}
    webhook, secret = await create(service, receiver.url)
    await tell(service.parts.control, 1)
    (item,) = await until_all(service, webhook, "delivered")
    got = await receiver.until(5)
    assert item["attempts"] == 5
    assert {(one.id, one.body, one.path) for one in got} == {(item["id"], got[0].body, "/vigil")}
    assert all(is_genuine(one, secret, now_s=time.time()) for one in got)
    await asyncio.sleep(0.3)
    assert len(receiver.got) == 5


async def test_a_restart_sends_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_delivery, "REST_S", 0.1)
    receiver = Receiver(answer=lambda _: 500)
    async with receiving(receiver):
        async with served(create_app(settings(tmp_path))) as first:
            webhook, secret = await create(first, receiver.url)
            await tell(first.parts.control, 1, 2)
            await receiver.until(1)
        receiver.got.clear()
        receiver.answer = lambda _: 200
        async with served(create_app(settings(tmp_path))) as second:
            first_again = next(item for item in await deliveries(second, webhook) if item["attempts"])
            await call(second, "POST", f"/{webhook}/deliveries/{first_again['id']}/redeliver", expect=202)
            await until_all(second, webhook, "delivered")
            await tell(second.parts.control, 3)
            got = await receiver.until(3)
            assert sorted(one.document["document"]["message"] for one in got) == ["1", "2", "3"]
            assert all(is_genuine(one, secret, now_s=time.time()) for one in got)


async def test_one_that_fails_for_itself_keeps_no_other_waiting(service: Served, receiver: Receiver) -> None:
    receiver.answer = lambda delivery: 500 if delivery.document["document"]["message"] == "1" else 200
    webhook, _ = await create(service, receiver.url)
    await tell(service.parts.control, 1, 2, 3)
    async with asyncio.timeout(PATIENCE_S):
        while len(await deliveries(service, webhook, state="delivered")) < 2:
            await asyncio.sleep(0.02)
    (stuck,) = await deliveries(service, webhook, state="pending")
    assert (stuck["event_id"], stuck["status"], stuck["error"]) == (1, 500, "the receiver answered 500")


async def test_one_receiver_that_hangs_keeps_no_other_waiting(
    service: Served, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "DEADLINE_S", 0.5)
    async with receiving(Receiver(delay_s=3)) as slow:
        hanging, _ = await create(service, slow.url)
        await create(service, receiver.url)
        await tell(service.parts.control, 1)
        await receiver.until(1)
        async with asyncio.timeout(PATIENCE_S):
            while not (await deliveries(service, hanging))[0]["attempts"]:
                await asyncio.sleep(0.02)
        (item,) = await deliveries(service, hanging)
        assert (item["state"], item["status"], item["error"]) == ("pending", None, "no answer within 0.5 s")
        await call(service, "DELETE", f"/{hanging}", expect=204)


async def test_410_ends_a_delivery(service: Served, receiver: Receiver) -> None:
    receiver.answer = lambda _: 410
    webhook, _ = await create(service, receiver.url)
    await tell(service.parts.control, 1)
    (item,) = await until_all(service, webhook, "failed")
    assert (item["attempts"], item["status"]) == (1, 410)


async def test_a_test_is_sent_once_whatever_comes_of_it(service: Served, receiver: Receiver) -> None:
    receiver.answer = lambda _: 500
    webhook, secret = await create(service, receiver.url, kinds=["phase_changed"])
    begun = await call(service, "POST", f"/{webhook}/test", expect=202)
    (item,) = await until_all(service, webhook, "failed")
    assert (item["id"], item["kind"], item["status"], item["attempts"]) == (begun["id"], "test", 500, 1)
    WebhookTest.model_validate(receiver.got[0].document)
    assert is_genuine(receiver.got[0], secret, now_s=time.time())
    assert await call(service, "GET", f"/{webhook}/deliveries/{begun['id']}", expect=200) == item


async def test_filters(service: Served, receiver: Receiver) -> None:
    control = service.parts.control
    webhook, _ = await create(service, receiver.url, kinds=["contact_changed"])
    everything, _ = await create(service, receiver.url)
    await tell(control, 1, 2)
    await until_all(service, everything, "delivered")
    assert await deliveries(service, webhook) == []


async def test_redelivery_keeps_id_and_body(service: Served, receiver: Receiver) -> None:
    webhook, _ = await create(service, receiver.url)
    await tell(service.parts.control, 1)
    (item,) = await until_all(service, webhook, "delivered")
    again = await call(service, "POST", f"/{webhook}/deliveries/{item['id']}/redeliver", expect=202, key="k")
    assert (again["state"], again["ended_at"]) == ("pending", None)
    first, second = await receiver.until(2)
    assert (first.id, first.body) == (second.id, second.body)
    (item,) = await until_all(service, webhook, "delivered")
    assert item["attempts"] == 2


async def test_a_deleted_webhook_is_told_nothing_more(service: Served, receiver: Receiver) -> None:
    receiver.answer = lambda _: 500
    webhook, _ = await create(service, receiver.url)
    await tell(service.parts.control, 1)
    await receiver.until(1)
    await call(service, "DELETE", f"/{webhook}", expect=204)
    async with service.parts.control.database.read() as session:
        assert await webhook_queries.pending_counts(session, [webhook]) == {webhook: 0}
    count = len(receiver.got)
    await tell(service.parts.control, 2)
    await asyncio.sleep(0.5)
    assert len(receiver.got) <= count + 1  # one attempt may have been under way
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/test"), ("GET", "/deliveries")):
        await call(service, method, f"/{webhook}{path}", expect=404)


async def test_a_secret_that_was_made_is_shown_once_and_stored_nowhere(tmp_path: Path) -> None:
    async with served(create_app(settings(tmp_path))) as service, receiving() as receiver:
        body = {"url": receiver.url}
        first = await call(service, "POST", "", body, expect=201, key="k")
        again = await call(service, "POST", "", body, expect=201, key="k")
        secret = first["secret"]
        assert secret.startswith("whsec_")
        assert (again["webhook"], again["secret"]) == (first["webhook"], None)
        assert "in the clear" in first["warnings"][0]
        assert secret not in (await service.http.get("/api/v1/webhooks")).text
        other = (await call(service, "POST", "", body, expect=201))["secret"]
        assert other != secret
        key_file = tmp_path / webhook_secrets.KEY_FILE
        assert key_file.stat().st_mode & 0o777 == 0o600
        needles = [secret.encode(), secret.removeprefix("whsec_").encode(), webhook_secrets.key_of(secret)]
        for path in tmp_path.iterdir():
            assert not any(needle in path.read_bytes() for needle in needles), path


async def test_another_key_file_is_noticed(service: Served, receiver: Receiver, tmp_path: Path) -> None:
    webhook, _ = await create(service, receiver.url)
    (tmp_path / webhook_secrets.KEY_FILE).write_text("00" * 32)
    await tell(service.parts.control, 1)
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await deliveries(service, webhook)) or not found[0]["error"]:
            await asyncio.sleep(0.02)
    assert "is not the one" in found[0]["error"]
    assert receiver.got == []


async def test_a_secret_by_reference(service: Served, receiver: Receiver, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("whsec_" + "c2VjcmV0" * 5 + "\n")
    file.chmod(0o600)
    webhook, shown = await create(service, receiver.url, secret={"file": str(file)})
    assert shown == ""
    assert (await call(service, "GET", f"/{webhook}", expect=200))["secret"] == {"file": str(file), "env": None}
    await tell(service.parts.control, 1)
    await receiver.until(1)
    file.write_text("another secret of the same receiver")
    await tell(service.parts.control, 2)
    first, second = await receiver.until(2)
    assert is_genuine(first, "whsec_" + "c2VjcmV0" * 5, now_s=time.time())
    assert is_genuine(second, "another secret of the same receiver", now_s=time.time())
    file.write_text("short")
    problem = await call(service, "POST", "", {"url": receiver.url, "secret": {"file": str(file)}}, expect=422)
    assert "24 bytes" in problem["detail"]
    file.unlink()
    problem = await call(service, "POST", "", {"url": receiver.url, "secret": {"file": str(file)}}, expect=422)
    assert problem["code"] == "secret_unavailable"


async def test_a_day_of_trying_ends(service: Served) -> None:
    """Time is an argument: each attempt fails at the instant when it is due."""
    control = service.parts.control
    webhook, _ = await create(service, "http://127.0.0.1:1/")
    started = control.now()
    control.now = _at(started)
    async with control.database.write() as session:
        row = await webhook_queries.get_webhook(session, webhook)
        delivery = notifying.new_test(row, at=started + timedelta(days=3))
        delivery.kind, delivery.give_up_at = "server_moved", started + timedelta(days=1)
        delivery.next_at = started + timedelta(days=3)  # the courier leaves it alone
        session.add(delivery)
    clock, pauses = started, []
    while delivery.state is DeliveryState.PENDING:
        control.now = _at(clock)
        await notifying.note_outcome(control, delivery, Outcome(None, "refused", 1))
        async with control.database.read() as session:
            delivery = await session.get_one(WebhookDelivery, delivery.id)
        pauses.append((delivery.next_at - clock).total_seconds())
        clock = max(clock, delivery.next_at)
    assert clock == started + timedelta(days=1)
    assert 30 <= delivery.attempts <= 50
    assert max(pauses) <= 3600 * 1.2
    assert pauses[3] > 2 * pauses[0]


def _at(instant: datetime) -> Callable[[], datetime]:
    return lambda: instant


async def test_what_waits_is_bounded(service: Served, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that find no room wait in their own table and come when there is room, none lost, none twice."""
    monkeypatch.setattr(notifying, "MOST_PENDING", 5)
    is_down = True
    receiver.answer = lambda _: 500 if is_down else 200
    webhook, _ = await create(service, receiver.url)
    for number in range(1, 6):
        await tell(service.parts.control, number)
    async with asyncio.timeout(PATIENCE_S):
        while (await call(service, "GET", f"/{webhook}", expect=200))["pending"] < 5:
            await asyncio.sleep(0.05)
    for number in range(6, 31):
        await tell(service.parts.control, number)
    await asyncio.sleep(0.5)
    assert (await call(service, "GET", f"/{webhook}", expect=200))["pending"] == 5
    is_down = False
    receiver.got.clear()
    async with asyncio.timeout(PATIENCE_S):
        while len(await deliveries(service, webhook, state="delivered")) < 30:
            await asyncio.sleep(0.05)
    assert sorted(int(one.document["document"]["message"]) for one in receiver.got) == list(range(1, 31))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://receiver.example/x",
        "//receiver.example/x",
        "https:///x",
        "https://user:word@receiver.example/",
        "https://receiver.example/#x",
        "https://receiver.example/\r\nHost: other",
        "https://receiver.example:0/",
        "https://receiver.example:99999/",
        "https://[::1/",
        "https://no-such-name.invalid/",
    ],
)
async def test_an_address_that_is_none_is_refused(service: Served, url: str) -> None:
    assert (await call(service, "POST", "", {"url": url}, expect=422))["code"] == "target_refused"


async def test_a_wish_for_what_is_not_there(service: Served, receiver: Receiver) -> None:
    await call(service, "POST", "", {"url": receiver.url, "server": "nobody"}, expect=404)
    await call(service, "POST", "", {"url": receiver.url, "kinds": ["nonsense"]}, expect=422)
    await call(service, "POST", "", {"url": receiver.url, "kinds": []}, expect=422)


async def test_there_are_only_so_many(service: Served, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "MOST_WEBHOOKS", 1)
    await create(service, receiver.url)
    await call(service, "POST", "", {"url": receiver.url}, expect=422)


async def test_taken_by_a_receiver_that_never_ends_its_answer(service: Served) -> None:
    """The body of the answer is not kept, and does not keep anybody waiting once it is long."""

    class Endless(Receiver):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await receive()
            self.got.append(Delivery(scope["path"], {}, b""))
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(1000):
                await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})

    async with receiving(Endless()) as endless:
        webhook, _ = await create(service, endless.url)
        await tell(service.parts.control, 1)
        (item,) = await until_all(service, webhook, "delivered")
        assert item["status"] == 200
