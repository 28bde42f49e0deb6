"""The tokens that are valid now, in memory: a request is admitted without a look at the database."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from service.access.roles import Caller
from service.access.tokens import digest_of, is_same
from service.clock import to_text
from service.db import tokens as token_queries
from service.db.engine import Database
from service.db.tables import Token
from service.errors import Unauthenticated

USES_KEPT_EVERY = timedelta(minutes=1)
_PLACE = 16
"""Tokens are found by so many characters of their digest, then compared whole in constant time."""
_LOOKUPS_AT_ONCE = 2
"""However many unknown tokens are tried, the readers of the database are left to others."""


@dataclass(frozen=True, slots=True)
class _Known:
    digest: str
    caller: Caller


class TokenBook:
    """Knows every token that is not revoked. One of the database that is not in the book yet is looked up once."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now
        self._places: dict[str, list[_Known]] = {}
        self._revisions = 0
        self._lookups = asyncio.Semaphore(_LOOKUPS_AT_ONCE)
        self._used_at: dict[str, datetime] = {}
        self._kept_at: datetime | None = None

    async def find_caller(self, token: str) -> Caller:
        """Return whose token it is and note its use; Unauthenticated if it is unknown, revoked or expired."""
        digest = digest_of(token)
        caller = self._known(digest) or await self._look_up(digest)
        now = self._now()
        if caller.expires_at is not None and caller.expires_at <= now:
            raise Unauthenticated(f"the token expired at {to_text(caller.expires_at)}")
        self._used_at[caller.key] = now
        return caller

    async def read(self) -> set[str]:
        """Read all tokens anew; returns the keys of the callers whose token is gone."""
        revision = self._revisions
        async with self._database.read() as session:
            rows = await token_queries.living_tokens(session)
        if revision != self._revisions:
            return set()  # one came or went meanwhile: what was read may be wrong about it
        before = self._keys()
        places: dict[str, list[_Known]] = defaultdict(list)
        for row in rows:
            places[row.digest[:_PLACE]].append(_entry(row))
        self._places = dict(places)
        return before - self._keys()

    def forget(self, key: str) -> None:
        """Let a token be valid no more, at once; call it after the commit that revoked it."""
        self._revisions += 1
        self._places = {
            place: [item for item in known if item.caller.key != key] for place, known in self._places.items()
        }

    async def keep_uses(self, *, is_end: bool = False) -> None:
        """Write when tokens were last used, at most once a minute, and at the end."""
        now = self._now()
        if not self._used_at or not (is_end or self._kept_at is None or now - self._kept_at >= USES_KEPT_EVERY):
            return
        used_at, self._used_at, self._kept_at = self._used_at, {}, now
        async with self._database.write() as session:
            await token_queries.note_uses(session, used_at)

    def _known(self, digest: str) -> Caller | None:
        for known in self._places.get(digest[:_PLACE], ()):
            if is_same(known.digest, digest):
                return known.caller
        return None

    async def _look_up(self, digest: str) -> Caller:
        """Return the caller of a token that the database knows: one that was made by another process just now."""
        revision = self._revisions
        async with self._lookups, self._database.read() as session:
            row = await token_queries.find_token_of_digest(session, digest)
        if row is None:
            raise Unauthenticated("this token is not known")
        if row.deleted_at is not None:
            raise Unauthenticated(f"the token was revoked at {to_text(row.deleted_at)}")
        known = _entry(row)
        if revision != self._revisions:
            return await self._look_up(digest)
        self._places.setdefault(digest[:_PLACE], []).append(known)
        self._revisions += 1
        return known.caller

    def _keys(self) -> set[str]:
        return {item.caller.key for known in self._places.values() for item in known}


def _entry(row: Token) -> _Known:
    return _Known(row.digest, Caller(f"token:{row.name}", row.id, row.role, row.expires_at))
