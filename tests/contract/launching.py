"""The contract of launching, watching, stopping and restarting; a test module binds it to a site."""

import signal
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.other_engine import other_engine
from tests.contract.site import Site, end, is_alive, processes_of_launch, schedulers_of
from tests.contract.vigil import Vigil

UP = ("stopped", "starting", "launch_requested"), ("starting", "ready", "became_ready")
HEALTH_PATIENCE = 1.25
"""How many times as long as the engine itself /health is waited for: 25 s for 20 s, as the service does by default."""
DOWN = ("ready", "stopping", "stop_requested"), ("stopping", "stopped", "stop_verified")


class LaunchContract:
    """Each test has a Vigil of its own; `site` is given by the module that binds the contract."""

    @pytest.fixture
    def vigil(self, tmp_path: Path, site: Site) -> Iterator[Vigil]:
        patience = {"VIGIL_HEALTH_DEADLINE_S": str(site.health_timeout_s * HEALTH_PATIENCE)}
        with Vigil(tmp_path / "vigil", environment=patience) as service:
            created = service.post("/nodes", site.node(), expect=201)
            service.until_contact(created["name"])
            yield service
            self.stop_everything(service)

    def stop_everything(self, vigil: Vigil) -> None:
        """Leave no engine behind, whatever the test did."""
        for server in vigil.get("/servers", limit=200)["items"]:
            if server["state"] != "stopped":
                vigil.http.post(f"/api/v1/servers/{server['name']}/stop")
                vigil.until_at_rest(server["name"])

    def place(self, vigil: Vigil, site: Site, recipe: dict[str, Any] | None = None, *, name: str = "one") -> str:
        """Make a profile and a server of it, not launched yet."""
        vigil.post("/profiles", {"name": f"{name}-profile", "recipe": recipe or site.recipe()}, expect=201)
        vigil.post("/servers", {"name": name, "profile": f"{name}-profile", "node": site.name}, expect=201)
        return name

    def bring_up(self, vigil: Vigil, site: Site, recipe: dict[str, Any] | None = None, *, name: str = "one") -> Any:
        """Place, launch and wait for ready; returns the server."""
        self.place(vigil, site, recipe, name=name)
        vigil.post(f"/servers/{name}/launch", expect=202)
        return vigil.wait(name, timeout_s=site.start_s)

    def complete(self, vigil: Vigil, server: Any) -> str:
        """Ask the engine itself for a completion; nodes of the tests are on this machine."""
        answer = vigil.http.post(
            f"http://127.0.0.1:{server['port']}/generate",
            json={"text": "hello world", "sampling_params": {"max_new_tokens": 4, "temperature": 0}},
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["text"])

    def assert_gone(self, vigil: Vigil, launch_id: str, port: int) -> None:
        """Look with our own eyes, not Vigil's: no process, no listener."""
        assert processes_of_launch(launch_id) == []
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        leftovers = vigil.get(f"/launches/{launch_id}")["leftovers"]
        assert leftovers["is_clear"] is True

    def test_launch_complete_restart_stop(self, vigil: Vigil, site: Site) -> None:
        name = self.place(vigil, site, site.slow(site.recipe()))
        operation = vigil.post(f"/servers/{name}/launch", expect=202)
        phases: list[str] = []

        def follow() -> bool:
            server = vigil.get(f"/servers/{name}")
            phase = server["launch"]["phase"]
            if phase and (not phases or phases[-1] != phase):
                phases.append(phase)
            return bool(server["state"] in {"ready", "failed"})

        vigil.until("it is ready", follow, deadline_s=site.start_s)
        server = vigil.wait(name, timeout_s=1)
        assert server["state"] == "ready"
        assert len(phases) >= 2, phases
        assert vigil.get(f"/operations/{operation['id']}")["state"] == "succeeded"
        first = vigil.get(f"/launches/{server['launch']['id']}")
        self.assert_timeline(first)
        assert isinstance(self.complete(vigil, server), str)

        vigil.post(f"/servers/{name}/restart", expect=202)
        vigil.until_state(name, "ready", deadline_s=site.start_s + 60)
        again = vigil.wait(name, timeout_s=site.start_s)
        assert again["launch"]["number"] == 2
        assert again["launch"]["pid"] != server["launch"]["pid"]
        self.assert_gone_before(vigil, first["id"])
        assert isinstance(self.complete(vigil, again), str)

        vigil.post(f"/servers/{name}/stop", expect=202)
        vigil.wait(name, until="stopped")
        self.assert_gone(vigil, again["launch"]["id"], again["port"])
        assert vigil.transitions(name) == [*UP, *DOWN, *UP, *DOWN]
        assert vigil.get(f"/launches/{again['launch']['id']}")["exit_code"] == site.clean_exit_code

    def assert_timeline(self, launch: Any) -> None:
        names = [span["phase"] for span in launch["timeline"]]
        assert names[-1] == "serving"
        assert "loading_weights" in names
        assert all(span["ended_at"] for span in launch["timeline"][:-1])
        assert launch["engine_version"]

    def assert_gone_before(self, vigil: Vigil, launch_id: str) -> None:
        assert processes_of_launch(launch_id) == []
        assert vigil.get(f"/launches/{launch_id}")["leftovers"]["is_clear"] is True

    def refused(self, vigil: Vigil, name: str) -> dict[str, Any]:
        """Ask for a launch that its preflight refuses; return the failed checks by code."""
        problem = vigil.post(f"/servers/{name}/launch", expect=409)
        assert problem["code"] == "preflight_failed", problem
        assert vigil.get(f"/servers/{name}")["launch"] is None
        checks = problem["context"]["preflight"]["checks"]
        return {check["code"]: check for check in checks if check["outcome"] == "fail"}

    def launch_despite(self, vigil: Vigil, name: str, failed: Iterable[str]) -> Any:
        """Launch although these checks fail."""
        return vigil.post(f"/servers/{name}/launch", {"override": list(failed)}, expect=202)

    def assert_diagnosis(self, vigil: Vigil, server: Any, code: str, *, proof: str) -> None:
        """Find cause, proof and remedy with the launch, and the cause first in the server's message."""
        diagnosis = vigil.get(f"/launches/{server['launch']['id']}")["diagnosis"]
        assert diagnosis["code"] == code, diagnosis
        assert any(proof in item["text"] for item in diagnosis["evidence"]), diagnosis
        assert diagnosis["remedy"]
        assert server["message"].startswith(diagnosis["summary"])
        lines = vigil.http.get(f"/api/v1/launches/{server['launch']['id']}/log").text.split("\n")
        for item in diagnosis["evidence"]:
            assert item["text"][:40] in lines[item["line"] - 1], item

    def test_port_already_taken(self, vigil: Vigil, site: Site) -> None:
        name = self.place(vigil, site)
        port = vigil.get(f"/servers/{name}")["port"]
        with other_engine(port):
            failed_checks = self.refused(vigil, name)
            assert set(failed_checks) == {"node_port"}
            assert f"port {port}" in failed_checks["node_port"]["found"]
            self.launch_despite(vigil, name, failed_checks)
            problem = vigil.wait(name, timeout_s=site.start_s, expect=409)
        assert problem["code"] == "wait_pointless"
        failed = vigil.get(f"/servers/{name}")
        assert failed["reason"] == "process_exited"
        assert failed["launch"]["ready_at"] is None
        assert vigil.transitions(name)[-1][:2] == ("starting", "failed")
        log = vigil.http.get(f"/api/v1/launches/{failed['launch']['id']}/log").text
        assert "address already in use" in log
        assert "The server is fired up and ready to roll!" in log  # said to the other engine's answers
        self.assert_diagnosis(vigil, failed, "port_in_use", proof="address already in use")

    def test_wrong_flag(self, vigil: Vigil, site: Site) -> None:
        name = self.place(vigil, site, site.recipe(**{"num-speculative-tokens": 5}))
        failed_checks = self.refused(vigil, name)
        assert "--num-speculative-tokens" in failed_checks["engine_arguments"]["found"]
        assert "--speculative-num-draft-tokens" in failed_checks["engine_arguments"]["remedy"]
        operation = self.launch_despite(vigil, name, failed_checks)
        problem = vigil.wait(name, timeout_s=site.start_s, expect=409)
        assert "exit code 2" in problem["detail"]
        launch = vigil.get(f"/launches/{problem['context']['server']['launch']['id']}")
        assert launch["exit_code"] == 2
        log = vigil.http.get(f"/api/v1/launches/{launch['id']}/log", params={"contains": "unrecognized"}).text
        assert "--num-speculative-tokens" in log
        server = vigil.get(f"/servers/{name}")
        self.assert_diagnosis(vigil, server, "invalid_argument", proof="--num-speculative-tokens")
        assert vigil.get(f"/operations/{operation['id']}")["state"] == "failed"

    def test_missing_model_path(self, vigil: Vigil, site: Site) -> None:
        recipe = {**site.recipe(), "model_path": "/models/that/is/not/there"}
        name = self.place(vigil, site, recipe)
        failed_checks = self.refused(vigil, name)
        assert "/models/that/is/not/there" in failed_checks["model_path"]["found"]
        self.launch_despite(vigil, name, failed_checks)
        vigil.wait(name, timeout_s=site.start_s, expect=409)
        failed = vigil.get(f"/servers/{name}")
        assert (failed["reason"], failed["launch"]["exit_code"]) == ("process_exited", 1)
        self.assert_diagnosis(vigil, failed, "missing_weights", proof="/models/that/is/not/there")

    def test_two_of_three_speculative_numbers(self, vigil: Vigil, site: Site) -> None:
        recipe = site.recipe()
        speculation = {
            "speculative-algorithm": "EAGLE3",
            "speculative-draft-model-path": recipe["model_path"],
            "speculative-num-draft-tokens": 16,
        }
        name = self.place(vigil, site, site.recipe(**speculation))
        failed_checks = self.refused(vigil, name)
        assert "--speculative-num-draft-tokens" in failed_checks["engine_arguments"]["found"]
        assert "--speculative-num-steps" in failed_checks["engine_arguments"]["remedy"]
        self.launch_despite(vigil, name, failed_checks)
        vigil.wait(name, timeout_s=site.start_s, expect=409)
        failed = vigil.get(f"/servers/{name}")
        self.assert_diagnosis(vigil, failed, "speculative_args_incomplete", proof="AssertionError")

    def test_scheduler_killed(self, vigil: Vigil, site: Site) -> None:
        server = self.bring_up(vigil, site)
        (scheduler,) = schedulers_of(server["launch"]["pid"])
        end(scheduler, signal.SIGKILL)
        failed = vigil.until_state("one", "failed", deadline_s=60)
        assert failed["reason"] == "process_exited"
        assert failed["launch"]["exit_code"] == 137
        self.assert_diagnosis(vigil, failed, "child_process_died", proof="exit code -9")
        self.until_clean(vigil, "one")
        self.assert_gone(vigil, failed["launch"]["id"], failed["port"])
        vigil.post("/servers/one/launch", expect=202)
        assert vigil.wait("one", timeout_s=site.start_s)["launch"]["number"] == 2

    def test_scheduler_stopped_and_continued(self, vigil: Vigil, site: Site) -> None:
        server = self.bring_up(vigil, site)
        (scheduler,) = schedulers_of(server["launch"]["pid"])
        end(scheduler, signal.SIGSTOP)
        try:
            unready = vigil.until_state("one", "unready", deadline_s=site.health_timeout_s * 3 + 15)
            assert unready["reason"] == "health_failing"
            assert unready["verdict"]["verdict"] == "engine_silent"
        finally:
            end(scheduler, signal.SIGCONT)
        healed = vigil.until_state("one", "ready", deadline_s=60)
        assert healed["reason"] == "health_recovered"
        assert healed["launch"]["id"] == server["launch"]["id"]

    def test_scheduler_stopped_while_starting(self, vigil: Vigil, site: Site) -> None:
        recipe = {**site.slow(site.recipe()), "limits": {"hang_after_s": site.hang_after_s}}
        name = self.place(vigil, site, recipe)
        vigil.post(f"/servers/{name}/launch", expect=202)
        pid = vigil.until("it has a pid", lambda: vigil.get(f"/servers/{name}")["launch"]["pid"])
        (scheduler,) = vigil.until("it has a scheduler", lambda: schedulers_of(pid), deadline_s=site.start_s)
        end(scheduler, signal.SIGSTOP)
        try:
            hung = vigil.until(
                "it is suspected hung",
                lambda: self.with_verdict(vigil, name, "suspected_hung"),
                deadline_s=site.hang_after_s * 3 + 30,
            )
            assert hung["state"] == "starting"
            assert hung["verdict"]["deadline_source"] == "profile_limit"
            launch_id = hung["launch"]["id"]
            vigil.until("its evidence is kept", lambda: vigil.get(f"/launches/{launch_id}")["hang_evidence"])
        finally:
            end(scheduler, signal.SIGCONT)
        assert vigil.wait(name, timeout_s=site.start_s)["launch"]["number"] == 1

    def with_verdict(self, vigil: Vigil, name: str, verdict: str) -> Any:
        server = vigil.get(f"/servers/{name}")
        return server if server["verdict"] and server["verdict"]["verdict"] == verdict else None

    def test_parent_killed(self, vigil: Vigil, site: Site) -> None:
        server = self.bring_up(vigil, site)
        end(server["launch"]["pid"], signal.SIGKILL)
        failed = vigil.until_state("one", "failed", deadline_s=20)
        assert failed["reason"] == "process_exited"
        assert failed["launch"]["exit_code"] == 137
        self.until_clean(vigil, "one")
        self.assert_gone(vigil, failed["launch"]["id"], failed["port"])

    def test_control_plane_killed_while_starting(self, vigil: Vigil, site: Site) -> None:
        name = self.place(vigil, site)
        operation = vigil.post(f"/servers/{name}/launch", expect=202)
        started = vigil.until("it has a pid", lambda: vigil.get(f"/servers/{name}")["launch"]["pid"])
        vigil.kill()
        assert is_alive(started)
        vigil.start()
        server = vigil.wait(name, timeout_s=site.start_s)
        assert (server["launch"]["number"], server["launch"]["pid"]) == (1, started)
        assert vigil.transitions(name) == [*UP]
        assert vigil.get(f"/operations/{operation['id']}")["state"] == "succeeded"
        self.assert_timeline(vigil.get(f"/launches/{server['launch']['id']}"))

    def test_control_plane_killed_while_ready_and_while_stopping(self, vigil: Vigil, site: Site) -> None:
        server = self.bring_up(vigil, site)
        vigil.kill()
        vigil.start()
        assert vigil.until_state("one", "ready", deadline_s=10)["launch"]["pid"] == server["launch"]["pid"]
        vigil.until("it is seen again", lambda: vigil.get("/servers/one")["observed_at"])
        assert vigil.get("/servers/one")["state"] == "ready"
        vigil.post("/servers/one/stop", expect=202)
        vigil.kill()
        vigil.start()
        vigil.wait("one", until="stopped")
        self.assert_gone(vigil, server["launch"]["id"], server["port"])
        assert vigil.transitions("one") == [*UP, *DOWN]

    def test_a_secret_is_nowhere_but_on_the_node(self, tmp_path: Path, site: Site) -> None:
        secret = "sk-quite-secret-0123456789"  # noqa: S105  made up here
        with Vigil(tmp_path / "vigil", environment={"TEST_API_KEY": secret}) as vigil:
            vigil.post("/nodes", site.node(), expect=201)
            vigil.until_contact(site.name)
            recipe = {**site.recipe(), "secret_args": {"api-key": {"env": "TEST_API_KEY"}}}
            server = self.bring_up(vigil, site, recipe)
            locked = vigil.http.get(f"http://127.0.0.1:{server['port']}/v1/models")
            assert locked.status_code == 401
            opened = vigil.http.get(
                f"http://127.0.0.1:{server['port']}/v1/models", headers={"Authorization": f"Bearer {secret}"}
            )
            assert opened.status_code == 200
            launch_id = server["launch"]["id"]
            log = vigil.http.get(f"/api/v1/launches/{launch_id}/log").text
            assert "api_key" in log
            said = [log, *(str(vigil.get(path)) for path in (f"/launches/{launch_id}", "/profiles", "/transitions"))]
            argv = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes_of_launch(launch_id)]
            self.stop_everything(vigil)
            assert not any(secret in text for text in said)
            assert not any(secret.encode() in line for line in argv)
            files = [path for path in (tmp_path / "vigil").iterdir() if path.is_file()]
            assert not [path.name for path in files if secret.encode() in path.read_bytes()]

    def until_clean(self, vigil: Vigil, name: str) -> None:
        """Wait for the cleanup that follows a failure."""
        vigil.until(
            "the cleanup has ended",
            lambda: not vigil.get("/operations", server=name, state="running")["items"],
            deadline_s=90,
        )
