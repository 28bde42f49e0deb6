"""What the shell is told while somebody types: names, or nothing, but never how a command failed."""

import pytest

from service.cli.completion import servers
from tests.contract.vigil import free_port


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://127.0.0.1:99999", "http://", "llama", "ftp://x", "http://a b", "http://a?x", ""]
)
def test_an_address_that_is_none_gives_no_names(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`VIGIL_URL=http://[::1` put a traceback into the line that was being typed."""
    monkeypatch.setenv("VIGIL_URL", url)
    assert servers("") == []


def test_nobody_at_the_address_gives_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIGIL_URL", f"http://127.0.0.1:{free_port()}")
    assert servers("") == []
