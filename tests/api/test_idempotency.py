"""One key, one effect: however often, and however many at once."""

import asyncio
from datetime import datetime

import pytest

from service.db.tables import Node
from service.errors import NodeUnreachable
from service.operations import enrolling
from service.operations.control import Control
from tests.api.conftest import RECIPE, Api

BODY = {"name": "p", "recipe": RECIPE}


async def test_a_repetition_gives_the_same_answer_and_does_nothing(api: Api) -> None:
    first = await api.http.post("/api/v1/profiles", json=BODY, headers={"Idempotency-Key": "k1"})
    again = await api.http.post("/api/v1/profiles", json=BODY, headers={"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len((await api.call("GET", "/profiles"))[1]["items"]) == 1


async def test_twenty_at_once_take_effect_once(api: Api) -> None:
    answers = await asyncio.gather(*(api.call("POST", "/profiles", BODY, key="k1") for _ in range(20)))
    assert {status for status, _ in answers} == {201}
    assert len({document["id"] for _, document in answers}) == 1


async def test_the_key_of_another_request_is_refused(api: Api) -> None:
    await api.call("POST", "/profiles", BODY, key="k1")
    status, problem = await api.call("POST", "/profiles", {**BODY, "name": "q"}, key="k1")
    assert (status, problem["code"]) == (422, "idempotency_key_reused")


async def test_a_request_that_failed_may_be_tried_again_with_its_key(api: Api) -> None:
    body = {"name": "one", "profile": "p", "node": "atlas"}
    await api.add_node()
    assert (await api.call("POST", "/servers", body, key="k1"))[0] == 404
    await api.call("POST", "/profiles", BODY)
    assert (await api.call("POST", "/servers", body, key="k1"))[0] == 201


async def test_a_repeated_delete_says_again_that_it_is_gone(api: Api) -> None:
    await api.call("POST", "/profiles", BODY)
    assert (await api.call("DELETE", "/profiles/p", key="k1"))[0] == 204
    assert (await api.call("DELETE", "/profiles/p", key="k1"))[0] == 204
    assert (await api.call("DELETE", "/profiles/p"))[0] == 404


@pytest.mark.parametrize("key", ["", "x" * 201, "a b"])
async def test_a_key_that_breaks_the_rule(api: Api, key: str) -> None:
    answer = await api.http.post("/api/v1/profiles", json=BODY, headers={"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


async def test_a_repetition_waits_for_the_first_and_does_no_work_of_its_own(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands against a second try, such as the work of the first, must not be the answer to it."""
    begun = 0

    async def enroll(_control: Control, wish: enrolling.Enrolment, *, at: datetime) -> Node:
        nonlocal begun
        begun += 1
        if begun > 1:
            raise NodeUnreachable("it is busy with the first")
        await asyncio.sleep(0.1)
        return enrolling._row(wish, at)

    monkeypatch.setattr(enrolling, "enroll", enroll)
    body = {"name": "atlas", "address": "127.0.0.1", "user": "ops", "credential": {"kind": "agent"}}
    answers = await asyncio.gather(*(api.call("POST", "/nodes", body, key="k1") for _ in range(20)))
    assert {status for status, _ in answers} == {201}
    assert len({document["id"] for _, document in answers}) == begun == 1
    assert api.parts.gate.turns.count() == 0


async def test_a_repetition_is_tried_when_the_first_fails(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = 0

    async def enroll(_control: Control, wish: enrolling.Enrolment, *, at: datetime) -> Node:
        nonlocal begun
        begun += 1
        number = begun
        await asyncio.sleep(0.05)
        if number == 1:
            raise NodeUnreachable("not yet")
        return enrolling._row(wish, at)

    monkeypatch.setattr(enrolling, "enroll", enroll)
    body = {"name": "atlas", "address": "127.0.0.1", "user": "ops", "credential": {"kind": "agent"}}
    answers = await asyncio.gather(*(api.call("POST", "/nodes", body, key="k1") for _ in range(5)))
    assert sorted(status for status, _ in answers) == [201, 201, 201, 201, 502]
