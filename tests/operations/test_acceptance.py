"""What is held against a speculation becomes a finding that begins, goes on, and ends only with better numbers."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from service.db import migrating
from service.db.engine import Database
from service.db.findings import list_findings
from service.db.paging import PageRequest
from service.db.tables import Finding
from service.operations import acceptance, diagnoses
from service.profiles.profile import Profile
from service.profiles.speculation import speculation_terms
from service.sglang.acceptance import AcceptanceLedger, AcceptanceWatch
from tests.sglang.acceptance.told import at, decode_line, feed

RECIPE: dict[str, object] = {
    "python": "/venv/bin/python",
    "model_path": "/models/target",
    "gpu_count": 1,
    "server_args": {"speculative-algorithm": "EAGLE3", "speculative-num-steps": 3},
}


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """Give a database with the schema of this release."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'vigil.db'}"
    migrating.upgrade(url)
    made = Database(url)
    yield made
    await made.close()


def ledger(**fields: object) -> AcceptanceLedger:
    return AcceptanceLedger(speculation_terms(Profile.model_validate({**RECIPE, **fields})))


def load(book: AcceptanceLedger, length: float, *, second: int, lines: int = 5, running: int = 2) -> None:
    """Let a server decode: some lines, all at one instant."""
    watch = AcceptanceWatch()
    feed(watch, *[decode_line(length, running=running)] * lines)
    book.fold_log(watch, at(second))
    book.fold_log(AcceptanceWatch(), at(second))  # the next load is a log that begins anew


async def recorded(database: Database, book: AcceptanceLedger, second: int) -> list[Finding]:
    """Bring the findings in line, as the watcher does, and return them, oldest first."""
    complaints, undecided = acceptance.complaints(book, "0.5.23"), acceptance.undecided(book)
    async with database.write() as session:
        await diagnoses.reconcile(
            session, complaints, subject_id="ln_1", node_id="nd_1", server_id="sv_1", at=at(second), undecided=undecided
        )
    async with database.read() as session:
        page = await list_findings(session, PageRequest(), server_id="sv_1", node_id=None, is_open=None)
    return list(reversed(page.items))


async def test_it_begins_goes_on_and_ends(database: Database) -> None:
    book = ledger()
    assert await recorded(database, book, 0) == []
    load(book, 1.0, second=10)
    (begun,) = await recorded(database, book, 11)
    assert (begun.code, begun.began_at, begun.ended_at, begun.count) == ("speculation_ineffective", at(10), None, 5)
    assert "over about 400 tokens (400 verify steps) since 2026-03-01T10:00:10.000Z" in begun.summary
    load(book, 1.0, second=20)
    (longer,) = await recorded(database, book, 21)
    assert (longer.id, longer.began_at, longer.count) == (begun.id, at(10), 10)
    assert "over about 800 tokens" in longer.summary
    load(book, 2.8, second=30)
    (ended,) = await recorded(database, book, 31)
    assert (ended.id, ended.ended_at) == (begun.id, at(31))


async def test_idle_after_a_restart_of_the_service_heals_nothing(database: Database) -> None:
    before = ledger()
    load(before, 1.0, second=10)
    await recorded(database, before, 11)
    after = ledger()
    (going_on,) = await recorded(database, after, 100)
    assert going_on.ended_at is None
    load(after, 2.8, second=110, lines=4)
    (going_on,) = await recorded(database, after, 111)
    assert going_on.ended_at is None
    load(after, 2.8, second=120, lines=1)
    (ended,) = await recorded(database, after, 121)
    assert ended.ended_at == at(121)


async def test_a_poor_acceptance_is_another_finding_than_none_and_names_whose_floor_it_is(database: Database) -> None:
    book = ledger()
    load(book, 1.0, second=10)
    await recorded(database, book, 11)
    load(book, 1.1, second=20)
    ineffective, poor = await recorded(database, book, 21)
    assert (ineffective.ended_at, poor.code, poor.began_at) == (at(21), "speculation_below_floor", at(20))
    assert "below 1.70 (a hint, not a measurement: EAGLE3 with 3 steps" in poor.summary
    assert "limits.min_accept_length" in poor.remedy


async def test_the_profile_may_ask_for_more_or_for_less(database: Database) -> None:
    book = ledger(limits={"min_accept_length": 3.0})
    load(book, 2.8, second=10)
    (poor,) = await recorded(database, book, 11)
    assert "below 3.00 (the profile wants at least 3.00)" in poor.summary
    content = ledger(limits={"min_accept_length": 1.05})
    load(content, 1.1, second=20)
    assert acceptance.complaints(content, "0.5.23") == []


def test_another_interval_of_decode_lines_needs_more_of_them() -> None:
    terms = speculation_terms(Profile.model_validate({**RECIPE, "server_args": {"decode-log-interval": 4}}))
    assert (terms.decode_log_interval, terms.algorithm, terms.floor) == (4, None, None)


def test_what_is_said_does_not_change_while_nothing_is_decoded() -> None:
    book = ledger()
    load(book, 1.0, second=10)
    first = acceptance.complaints(book, None)
    assert book.standing(at(10) + timedelta(hours=1)).judgement == "unknown"
    assert acceptance.complaints(book, None) == first
