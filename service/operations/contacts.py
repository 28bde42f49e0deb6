"""Keeps the contact of nodes: what many watchers learn at the same time is written in one transaction."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from service.db.engine import Database
from service.db.tables import Node
from service.errors import VigilError
from service.nodes.contact import Contact
from service.operations import transitioning

BATCH = 100
"""So many in one transaction: others that write wait for its end, about a tenth of a second. A node's contact costs
1.2 ms this way, and 2.5 to 3.5 ms in a transaction of its own (measured, 1,000 at once)."""


@dataclass(slots=True, eq=False)
class _Note:
    """One contact to write, and what kept it from being written."""

    node: Node
    contact: Contact
    at: datetime
    error: VigilError | None
    is_settled: bool = False
    failure: Exception | None = None


class ContactBook:
    """Writes contacts in the order they come. Whose turn it is writes for those who wait behind it, too."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._notes: list[_Note] = []
        self._turn = asyncio.Lock()

    async def note(self, node: Node, contact: Contact, *, at: datetime, error: VigilError | None = None) -> None:
        """Record a contact with its transition; returns once it is committed, or raises what kept it from that.

        A note that cannot be written fails alone: those that were in one transaction with it are then written each in
        its own. Who is cancelled while others write for it may find it written all the same.
        """
        note = _Note(node, contact, at, error)
        self._notes.append(note)
        try:
            async with self._turn:
                if not note.is_settled:
                    await self._settle(self._notes[:BATCH])
        finally:
            if not note.is_settled:
                self._notes.remove(note)
        if note.failure is not None:
            raise note.failure

    async def _settle(self, notes: Sequence[_Note]) -> None:
        try:
            await self._write(notes)
        except Exception as failure:  # noqa: BLE001  whatever it is, who waits gets it
            if len(notes) > 1:
                for note in notes:
                    await self._settle([note])
                return
            notes[0].failure = failure
        for note in notes:
            note.is_settled = True
        self._notes = [note for note in self._notes if not note.is_settled]  # who was cancelled took its own away

    async def _write(self, notes: Sequence[_Note]) -> None:
        """Write notes in one transaction; their transitions go to the database together at its end."""
        async with self._database.write(is_long=len(notes) > 1) as session:
            with session.no_autoflush:
                for note in notes:
                    await transitioning.record_contact(session, note.node, note.contact, at=note.at, error=note.error)
