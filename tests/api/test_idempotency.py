"""One key, one effect: however often, and however many at once."""

import asyncio

import pytest

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
