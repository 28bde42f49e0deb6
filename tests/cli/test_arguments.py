"""Arguments that are wrong: told by the usage of their command with code 3, before anything is asked of a service."""

import pytest
from typer.testing import CliRunner

from service.cli.app import app
from tests.contract.vigil import free_port

COMMANDS = (
    ("servers", "show", "NAME"),
    ("servers", "remove", "NAME"),
    ("nodes", "remove", "NAME"),
    ("nodes", "trust", "NAME", "SHA256:x"),
    ("profiles", "show", "NAME"),
    ("operations", "cancel", "NAME"),
    ("token", "revoke", "NAME"),
    ("draft-rename", "NAME", "/a", "/b"),
    ("bench", "baseline", "NAME", "br_1"),
    ("logs", "NAME"),
    ("wait", "NAME", "--timeout", "0"),
    ("stop", "NAME"),
)
NAMES = ("", ".", "..", "../nodes/atlas", "llama/stop", "llama?x", "llama#x", "Größe", "x" * 64)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    "name", ["", ".", "..", "../nodes/atlas", "llama/stop", "llama?x", "llama#x", "Größe", "x" * 64]
)
def test_a_name_never_becomes_another_address(command: tuple[str, ...], name: str) -> None:
    """`vigil servers remove ""` said that it had removed; `vigil token revoke ../nodes/atlas` removed a node."""
    arguments = [name if part == "NAME" else part for part in command]
    done = CliRunner().invoke(app, [*arguments, "--url", f"http://127.0.0.1:{free_port()}"])
    assert (done.exit_code, "Invalid value" in done.stderr) == (3, True), done.output
