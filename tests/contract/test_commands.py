"""The command line against a running service: exit codes that scripts can use, and words that people can."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.contract.site import Site
from tests.contract.vigil import Vigil, free_port


def vigil_command(*arguments: str, url: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command as an operator would; its words are on standard error, where a script leaves them be."""
    environment = {**os.environ, **({"VIGIL_URL": url} if url else {})}
    return subprocess.run(
        [sys.executable, "-m", "service", *arguments],
        capture_output=True, text=True, env=environment, timeout=90, check=False,
    )  # fmt: skip


@pytest.fixture
def vigil(tmp_path: Path, site: Site) -> Iterator[Vigil]:
    with Vigil(tmp_path / "vigil") as service:
        service.post("/nodes", site.node(), expect=201)
        service.until_contact(site.name)
        yield service
        for server in service.get("/servers")["items"]:
            service.http.post(f"/api/v1/servers/{server['name']}/stop")
            service.until_at_rest(server["name"])


def place(vigil: Vigil, site: Site, name: str, script: str, **server_args: Any) -> None:
    recipe = {**site.recipe(**server_args), "env": {"VIGIL_SIM_SCRIPT": script}}
    vigil.post("/profiles", {"name": name, "recipe": recipe}, expect=201)
    vigil.post("/servers", {"name": name, "profile": name, "node": site.name}, expect=201)


def test_wait(vigil: Vigil, site: Site) -> None:
    place(vigil, site, "good", "default")
    place(vigil, site, "bad", "fast", **{"no-such-flag": 1})
    stopped = vigil_command("wait", "good", url=vigil.url)
    assert (stopped.returncode, "nobody has asked for a launch" in stopped.stderr) == (1, True)
    vigil.post("/servers/good/launch", expect=202)
    early = vigil_command("wait", "good", "--timeout", "0", url=vigil.url)
    assert (early.returncode, "the time is up" in early.stderr) == (2, True), early.stderr
    ready = vigil_command("wait", "good", url=vigil.url)
    assert (ready.returncode, "good is ready" in ready.stderr) == (0, True), ready.stderr
    vigil.post("/servers/bad/launch", {"override": ["engine_arguments"]}, expect=202)
    failed = vigil_command("wait", "bad", url=vigil.url)
    assert (failed.returncode, "exit code 2" in failed.stderr) == (1, True), failed.stderr
    unknown = vigil_command("wait", "nobody", url=vigil.url)
    assert (unknown.returncode, "no server" in unknown.stderr) == (3, True), unknown.stderr


def test_wait_outlasts_a_restart_of_the_service(vigil: Vigil, site: Site) -> None:
    place(vigil, site, "good", "fast")
    vigil.post("/servers/good/launch", expect=202)
    waiting = subprocess.Popen(
        [sys.executable, "-m", "service", "wait", "good", "--url", vigil.url], stderr=subprocess.PIPE, text=True
    )
    vigil.kill()
    vigil.start()
    _, said = waiting.communicate(timeout=60)
    assert (waiting.returncode, "good is ready" in said) == (0, True), said


def test_wait_when_nobody_answers() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    done = vigil_command("wait", "x", "--timeout", "1", "--url", nobody)
    assert (done.returncode, "does not answer" in done.stderr) == (2, True)
    assert "Traceback" not in done.stderr


def test_openapi_is_written_without_a_service() -> None:
    assert vigil_command("openapi").stdout == (Path(__file__).parents[2] / "openapi.json").read_text()


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("wait",), ("serve", "--port", "x"), ("wait", "x", "--until", "happy")]
)
def test_wrong_arguments_are_told_without_a_traceback(arguments: tuple[str, ...], vigil: Vigil) -> None:
    done = vigil_command(*arguments, url=vigil.url)
    assert done.returncode == 3
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_the_tour_of_the_demo() -> None:
    done = vigil_command("demo", "--once", "--port", str(free_port()))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "server llama: ready" in done.stdout
    assert "server llama: stopped" in done.stdout


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_ends_everything_it_started(tmp_path: Path, how: signal.Signals) -> None:
    demo = [sys.executable, "-m", "service", "demo", "--port", str(free_port())]
    with subprocess.Popen(
        demo, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert any("Ctrl-C ends the demo" in line for line in process.stdout)
        assert commands_with(tmp_path), "it runs an engine"
        process.send_signal(how)
        process.wait(30)
    assert commands_with(tmp_path) == []


def commands_with(path: Path) -> list[str]:
    """Return the command lines of the living processes that name this path."""
    return [line for line in map(command_line, Path("/proc").glob("[0-9]*")) if str(path) in line]


def command_line(process: Path) -> str:
    with suppress(OSError):
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def test_the_demo_on_a_port_that_is_taken(vigil: Vigil) -> None:
    done = vigil_command("demo", "--once", "--port", str(vigil.port))
    assert done.returncode == 1
    assert "is taken" in done.stdout
    assert "Traceback" not in done.stderr
