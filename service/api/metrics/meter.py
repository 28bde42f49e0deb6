"""One scrape after the other: counts what was told since the last, takes a picture, writes the page."""

import asyncio
from importlib.metadata import version

from service.api.metrics import picture
from service.api.metrics.page import page_of
from service.api.metrics.tallies import Tallies
from service.operations.control import Control


class Meter:
    """Holds the tallies for as long as the service runs."""

    def __init__(self, control: Control, tallies: Tallies) -> None:
        self._control = control
        self._tallies = tallies
        self._version = version("vigil-control")
        self._started_at = control.now()
        self._turn = asyncio.Lock()

    @classmethod
    async def begin(cls, control: Control) -> "Meter":
        """Return a meter that counts from now on."""
        async with control.database.read() as session:
            return cls(control, await Tallies.begin(session))

    async def scrape(self) -> bytes:
        """Return the page of this moment; scrapes that come at once take turns."""
        async with self._turn:
            async with self._control.database.read() as session:
                await self._tallies.catch_up(session)
            taken = await picture.take(self._control, started_at=self._started_at)
            return await asyncio.to_thread(page_of, taken, self._tallies, self._version)
