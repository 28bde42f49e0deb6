"""Arguments that are wrong: told by the usage of their command with code 3, before anything is asked of a service."""

from pathlib import Path

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


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:x", "http://", "http://a b", "http://a?x=1"]
)
@pytest.mark.parametrize("command", [("servers",), ("events",), ("token", "list")], ids=" ".join)
def test_an_address_that_is_none_is_told(command: tuple[str, ...], url: str) -> None:
    done = CliRunner().invoke(app, [*command, "--url", url])
    assert (done.exit_code, "Invalid value for '--url'" in done.stderr) == (3, True), done.output


@pytest.mark.parametrize("command", ["serve", "demo"])
@pytest.mark.parametrize("port", ["-1", "65536", "99999"])
def test_a_port_that_is_none_is_told(command: str, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Port 99999 was taken for 34463: the kernel keeps sixteen bits of it."""
    begun: list[object] = []
    monkeypatch.setattr("service.cli.serving.serve_until_ended", begun.append)
    monkeypatch.setattr("service.cli.demo.run", lambda **given: begun.append(given))
    done = CliRunner().invoke(app, [command, "--port", port])
    assert (done.exit_code, begun) == (3, []), done.output


def test_a_document_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["openapi", str(tmp_path / "nowhere" / "openapi.json")])
    assert (done.exit_code, done.exception.__class__) == (3, SystemExit), done.output


@pytest.mark.parametrize("value", ["-1", "nan", "1e400", "-1e400"])
@pytest.mark.parametrize(
    ("command", "runs"),
    [
        (("wait", "llama", "--timeout"), "service.cli.waiting.run"),
        (("stop", "llama", "--wait", "--timeout"), "service.cli.starting.begin"),
        (("bench", "run", "llama", "short", "--wait", "--timeout"), "service.cli.bench_run.begin"),
        (("token", "create", "x", "--role", "viewer", "--expires-days"), "service.cli.tokens.create"),
    ],
    ids=["wait", "stop", "bench", "token"],
)
def test_a_time_that_is_none_is_told(
    command: tuple[str, ...], runs: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`vigil wait --timeout -1` said that the time was up; with `nan` or `1e400` it waited for ever."""
    begun: list[object] = []

    def run(*given: object, **named: object) -> int:
        begun.append((given, named))
        return 0

    monkeypatch.setattr(runs, run)
    done = CliRunner().invoke(app, [*command, value])
    assert (done.exit_code, begun, "Invalid value for" in done.stderr) == (3, [], True), done.output
