"""Tokens through the API: shown once, kept as hashes, used, expired, revoked."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from service.access.roles import Role
from service.access.tokens import digest_of, is_acceptable, token_in, token_of
from service.db.tables import IdempotencyRecord, Token
from service.operations import granting
from service.operations.opening import UnsafeSettings, require_safe
from service.operations.token_book import TokenBook
from service.settings import Access, Settings
from tests.api.guarded import ADMIN, Guarded, guarded_app


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    async with guarded_app(tmp_path) as made:
        yield made


async def rows(guarded: Guarded) -> dict[str, Token]:
    async with guarded.api.parts.control.database.read() as session:
        return {row.name: row for row in (await session.execute(select(Token))).scalars()}


async def test_a_token_is_shown_once_and_only_its_hash_is_kept(guarded: Guarded) -> None:
    made = await guarded.ask("POST", "/tokens", ADMIN, json={"name": "alice", "role": "operator"})
    token = made.json()["token"]
    assert made.headers["location"] == "/api/v1/tokens/alice"
    assert (token[:4], len(token)) == ("vgl_", 47)
    shown = (await guarded.ask("GET", "/tokens/alice", ADMIN)).json()
    assert shown.items() <= made.json().items()
    assert (shown["role"], shown["created_by"], shown["last_used_at"]) == ("operator", "token:admin", None)
    listed = (await guarded.ask("GET", "/tokens", ADMIN)).text
    assert token not in listed
    assert digest_of(token) not in listed
    assert (await rows(guarded))["alice"].digest == digest_of(token)


async def test_a_repetition_does_not_show_it_again_nor_make_another(guarded: Guarded) -> None:
    request: dict[str, Any] = {"json": {"name": "alice", "role": "viewer"}, "headers": {"Idempotency-Key": "k1"}}
    first = (await guarded.ask("POST", "/tokens", ADMIN, **request)).json()
    again = (await guarded.ask("POST", "/tokens", ADMIN, **request)).json()
    assert again == {**first, "token": None}
    async with guarded.api.parts.control.database.read() as session:
        kept = (await session.execute(select(IdempotencyRecord))).scalars().all()
    assert [row.body for row in kept] == [again]


async def test_a_token_says_who_did_it(guarded: Guarded) -> None:
    await guarded.api.add_node()
    alice = await guarded.grant(Role.ADMIN, "alice")
    made = await guarded.ask("POST", "/tokens", alice, json={"name": "carol", "role": "viewer"})
    assert made.json()["created_by"] == "token:alice"


async def test_a_name_is_free_again_after_its_token_was_revoked(guarded: Guarded) -> None:
    first = await guarded.grant(Role.VIEWER, "alice")
    taken = await guarded.ask("POST", "/tokens", ADMIN, json={"name": "alice", "role": "viewer"})
    assert (taken.status_code, taken.json()["code"]) == (409, "name_taken")
    assert (await guarded.ask("DELETE", "/tokens/alice", ADMIN)).status_code == 204
    assert (await guarded.ask("DELETE", "/tokens/alice", ADMIN)).status_code == 404
    second = await guarded.grant(Role.VIEWER, "alice")
    assert [(await guarded.ask("GET", "/nodes", token)).status_code for token in (first, second)] == [401, 200]


async def test_why_a_token_is_refused(guarded: Guarded) -> None:
    revoked, expired = await guarded.grant_and_revoke(), await guarded.grant_expired()
    details = [(await guarded.ask("GET", "/nodes", token)).json()["detail"] for token in (None, "x", revoked, expired)]
    assert "no Authorization header" in details[0]
    assert "not known" in details[1]
    assert "was revoked at" in details[2]
    assert "expired at" in details[3]


@pytest.mark.parametrize("expires_at", ["2020-01-01T00:00:00Z", "2999-01-01T00:00:00", "soon"])
async def test_an_end_that_is_over_or_has_no_time_zone(guarded: Guarded, expires_at: str) -> None:
    body = {"name": "alice", "role": "viewer", "expires_at": expires_at}
    answer = await guarded.ask("POST", "/tokens", ADMIN, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


async def test_the_book_follows_what_another_process_does_in_the_database(guarded: Guarded) -> None:
    control, book = guarded.api.parts.control, guarded.api.parts.gate.tokens
    async with control.database.write() as session:
        row, token = await granting.grant(
            session, "bob", role=Role.VIEWER, expires_at=None, actor="local", at=control.now()
        )
    assert (await guarded.ask("GET", "/nodes", token)).status_code == 200, "at once"
    async with control.database.write() as session:
        await granting.revoke(session, "bob", at=control.now())
    assert await book.read() == {row.id}
    assert (await guarded.ask("GET", "/nodes", token)).status_code == 401


async def test_uses_are_written_once_a_minute(guarded: Guarded) -> None:
    now = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
    database = guarded.api.parts.control.database
    book = TokenBook(database, lambda: now)
    token = await guarded.grant(Role.VIEWER, "alice")
    written = []
    for seconds in (0, 5, 59, 60, 61):
        now = datetime(2026, 11, 29, 12, 0, tzinfo=UTC) + timedelta(seconds=seconds)
        await book.find_caller(token)
        await book.keep_uses()
        last = (await rows(guarded))["alice"].last_used_at
        assert last is not None
        written.append(last.second + 60 * last.minute)
    assert written == [0, 0, 0, 60, 60]
    await book.keep_uses(is_end=True)
    last = (await rows(guarded))["alice"].last_used_at
    assert last is not None
    assert last.minute * 60 + last.second == 61


async def test_the_first_admin_is_made_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with guarded_app(tmp_path, admin_token=None) as guarded:
        said = capfd.readouterr()
        token = next(word for word in said.err.split() if word.startswith("vgl_"))
        assert said.out == ""
        assert (await guarded.ask("GET", "/tokens", token)).status_code == 200
        assert (await guarded.ask("DELETE", "/tokens/admin", token)).status_code == 204
    async with guarded_app(tmp_path) as guarded:
        assert "vgl_" not in "".join(capfd.readouterr())
        for refused in (token, ADMIN):
            assert (await guarded.ask("GET", "/tokens", refused)).status_code == 401, "a restart lets nobody in"


def test_unsafe_settings() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "vigil.example.net", ""):
        with pytest.raises(UnsafeSettings, match="access is open"):
            require_safe(Settings(access=Access.OPEN, host=host))
        require_safe(Settings(access=Access.TOKEN, host=host))
    for host in ("127.0.0.1", "::1", "localhost"):
        require_safe(Settings(access=Access.OPEN, host=host))
    for token in ("short", "x" * 201, "a b" * 20, "ä" * 40):
        with pytest.raises(UnsafeSettings, match="VIGIL_ADMIN_TOKEN") as raised:
            require_safe(Settings.model_validate({"admin_token": token}))
        assert token not in str(raised.value)


def test_what_a_token_looks_like() -> None:
    token = token_of(bytes(range(32)))
    assert token == "vgl_" + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    assert is_acceptable(token)
    assert token_in(f"Bearer {token}") == token
    assert token_in(f"Basic {token}") is None
    with pytest.raises(ValueError, match="32 random bytes"):
        token_of(b"few")


@pytest.mark.parametrize("role", Role)
async def test_a_caller_is_told_who_he_is(guarded: Guarded, role: Role) -> None:
    token = await guarded.grant(role)
    answer = await guarded.ask("GET", "/caller", token)
    assert answer.json() == {"actor": f"token:some-{role}", "role": role, "expires_at": None, "access": "token"}


async def test_a_caller_is_told_when_his_token_ends(guarded: Guarded) -> None:
    ends = "2126-11-29T16:00:00.000Z"
    made = await guarded.ask("POST", "/tokens", ADMIN, json={"name": "guest", "role": "viewer", "expires_at": ends})
    assert (await guarded.ask("GET", "/caller", made.json()["token"])).json()["expires_at"] == ends
