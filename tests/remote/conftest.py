"""A real sshd for each module, and a connection to it for each test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from service.remote.ssh import SshConnection, open_connection
from tests.sshd import Sshd


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def other_sshd(tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path / "other") as server:
        yield server


@pytest.fixture
async def connection(sshd: Sshd) -> AsyncIterator[SshConnection]:
    opened = await open_connection(sshd.endpoint())
    yield opened
    await opened.close()
