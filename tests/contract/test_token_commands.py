"""`vigil token`, and the token that every command sends: by variable or file, never by argument."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.contract.vigil import Vigil, free_port


def command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command with these variables and no other token."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VIGIL_")}
    return subprocess.run(
        [sys.executable, "-m", "service", *arguments],
        capture_output=True, text=True, env={**environment, **variables}, timeout=90, check=False,
    )  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    """Give the settings of a service that was never started, and the first admin's token made beforehand."""
    settings = {"VIGIL_STATE_DIR": str(tmp_path / "vigil")}
    made = command("token", "create", "boss", "--role", "admin", **settings)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("vgl_"), "the token alone goes to standard output"
    assert "boss (admin), valid until it is revoked" in made.stderr
    return {**settings, "VIGIL_TOKEN": made.stdout.strip()}


@pytest.fixture
def vigil(state: dict[str, str], tmp_path: Path) -> Iterator[Vigil]:
    with Vigil(tmp_path / "vigil", environment={"VIGIL_ACCESS": "token"}) as service:
        service.http.headers["Authorization"] = f"Bearer {state['VIGIL_TOKEN']}"
        yield service


def test_a_token_made_beforehand_is_the_first(vigil: Vigil) -> None:
    assert vigil.get("/tokens")["items"][0]["created_by"].startswith("local:")
    assert "shown this once" not in vigil.log.read_text(), "so none was made at the start"


def test_tokens_through_a_running_service(vigil: Vigil, state: dict[str, str]) -> None:
    boss = {"VIGIL_TOKEN": state["VIGIL_TOKEN"]}
    made = command("token", "create", "eve", "--role", "viewer", "--expires-days", "2", "--url", vigil.url, **boss)
    assert made.returncode == 0, made.stderr
    eve = made.stdout.strip()
    listed = command("token", "list", "--url", vigil.url, **boss).stdout
    assert "eve" in listed
    assert eve not in listed
    refused = command("token", "create", "x", "--role", "admin", "--url", vigil.url, VIGIL_TOKEN=eve)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "forbidden: this needs the role admin, and token:eve has viewer" in refused.stderr
    assert command("token", "revoke", "eve", "--url", vigil.url, **boss).returncode == 0
    unknown = command("token", "revoke", "eve", "--url", vigil.url, **boss)
    assert (unknown.returncode, "not_found" in unknown.stderr) == (1, True)
    gone = command("token", "list", "--url", vigil.url, VIGIL_TOKEN=eve)
    assert (gone.returncode, "was revoked" in gone.stderr) == (1, True)


def test_tokens_in_the_database_beside_a_running_service(vigil: Vigil, state: dict[str, str]) -> None:
    made = command("token", "create", "bob", "--role", "viewer", **state)
    bob = {"Authorization": f"Bearer {made.stdout.strip()}"}
    assert httpx2.get(f"{vigil.url}/api/v1/nodes", headers=bob, trust_env=False).status_code == 200
    assert command("token", "revoke", "bob", **state).returncode == 0

    def is_refused() -> bool:
        return httpx2.get(f"{vigil.url}/api/v1/nodes", headers=bob, trust_env=False).status_code == 401

    vigil.until("the service knows", is_refused, deadline_s=15)


def test_how_a_command_gets_its_token(vigil: Vigil, state: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(state["VIGIL_TOKEN"] + "\n")
    file.chmod(0o600)
    by_file = command("--token-file", str(file), "token", "list", "--url", vigil.url)
    by_variable = command("token", "list", "--url", vigil.url, VIGIL_TOKEN_FILE=str(file))
    assert (by_file.returncode, by_variable.returncode) == (0, 0), by_file.stderr + by_variable.stderr
    without = command("token", "list", "--url", vigil.url)
    assert (without.returncode, "unauthenticated" in without.stderr) == (1, True)
    file.chmod(0o640)
    readable = command("--token-file", str(file), "token", "list", "--url", vigil.url)
    assert (readable.returncode, "mode 600" in readable.stderr) == (3, True)
    torn = command("token", "list", "--url", vigil.url, VIGIL_TOKEN="two words")  # noqa: S106  none at all
    assert (torn.returncode, "two words" in torn.stderr) == (3, False)


def test_open_access_starts_on_loopback_alone(tmp_path: Path) -> None:
    settings = {"VIGIL_STATE_DIR": str(tmp_path / "vigil"), "VIGIL_ACCESS": "open", "VIGIL_PORT": str(free_port())}
    refused = command("serve", "--host", "0.0.0.0", **settings)
    assert refused.returncode == 2
    assert "access is open" in refused.stderr
    assert "Traceback" not in refused.stderr
    with Vigil(tmp_path / "vigil") as vigil:
        assert vigil.http.get("/api/v1/nodes").status_code == 200
        assert "access_is_open host=127.0.0.1" in vigil.log.read_text()
