"""A secret in every place that may hold one, and in some that may not, is found nowhere else."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.access.tokens import digest_of
from tests.contract.site import Site
from tests.contract.test_events_survive import Post
from tests.contract.vigil import Vigil

SECRETS = {
    "admin": "admin-token-0123456789-abcdefghijklm",
    "api_key": "sk-an-api-key-of-an-engine-0123456789",
    "hub": "hf_a_token_of_a_hub_0123456789",
    "webhook": "a-secret-that-deliveries-are-signed-with-0123456789",
    "wrong": "vgl_wrong-token-0123456789-abcdefghijklmnopq",
    "basic": "dXNlcjphLXBhc3N3b3JkLTAxMjM0NTY3ODk=",
    "query": "token-in-an-address-0123456789",
    "misplaced_argument": "sk-misplaced-argument-0123456789",
    "misplaced_variable": "hf_misplaced_variable_0123456789",
    "malformed": "secret-in-a-body-that-is-no-json-0123456789",
    "unknown_field": "secret-in-a-field-that-is-unknown-0123456789",
    "misplaced_signature": "a-signature-in-the-place-of-a-reference-0123456789",
    "login": "a-password-in-an-address-0123456789",
    "unusable": "a-secret-in-a-file-that-others-may-read-0123456789",
}


WORKLOAD = {
    "dataset": {"kind": "random_ids", "input_tokens": 16, "output_tokens": 8},
    "load": {"kind": "closed", "concurrency": 2},
    "num_prompts": 4,
}


class Ears:
    """Everything that was said, wherever."""

    def __init__(self, vigil: Vigil) -> None:
        self._vigil = vigil
        self.heard: dict[str, bytes] = {}

    def ask(self, method: str, path: str, **request: Any) -> httpx2.Response:
        """Send a request and keep the answer, headers included."""
        answer = self._vigil.http.request(method, path, **request)
        self.keep(f"{method} {path} {len(self.heard)}", str(answer.headers.raw).encode() + answer.content)
        return answer

    def keep(self, place: str, said: bytes) -> None:
        self.heard[place] = said

    def look_at_processes(self, when: str) -> None:
        """Keep every command line of the machine."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    self.keep(f"process {entry.name}, {when}", (entry / "cmdline").read_bytes())
                except OSError:
                    continue

    def look_at_files(self, when: str) -> None:
        """Keep the bytes of the state directory: database, write-ahead log, service log."""
        for path in self._vigil.directory.rglob("*"):
            if path.is_file():
                self.keep(f"{path.name}, {when}", path.read_bytes())

    def where(self, text: str) -> list[str]:
        """Return the places where a text was heard."""
        return [place for place, said in self.heard.items() if text.encode() in said]


@pytest.fixture
def vigil(tmp_path: Path) -> Iterator[Vigil]:
    environment = {
        "VIGIL_ACCESS": "token",
        "VIGIL_ADMIN_TOKEN": SECRETS["admin"],
        "VIGIL_LOG_LEVEL": "DEBUG",
        "VIGIL_WEBHOOK_NETWORKS": '["127.0.0.0/8"]',
        "TEST_API_KEY": SECRETS["api_key"],
        "TEST_WEBHOOK": SECRETS["webhook"],
    }
    service = Vigil(tmp_path / "vigil", environment=environment)
    service.http.headers["Authorization"] = f"Bearer {SECRETS['admin']}"
    with service:
        yield service


@pytest.fixture
def post() -> Iterator[Post]:
    made = Post()
    yield made
    made.close()


def test_a_secret_is_found_nowhere(vigil: Vigil, site: Site, post: Post, tmp_path: Path) -> None:
    ears = Ears(vigil)
    secrets = dict(SECRETS)
    node = site.node()
    secrets["ssh_key"] = Path(node["credential"]["path"]).read_text().splitlines()[2]
    made = vigil.post("/tokens", {"name": "ops", "role": "operator"}, expect=201, key="k1")
    secrets["token"] = made["token"]
    secrets["signature"] = vigil.post("/webhooks", {"url": post.url}, expect=201, key="k2")["secret"]
    ears.ask("POST", "/api/v1/webhooks", json={"url": post.url}, headers={"Idempotency-Key": "k2"})
    take_in(vigil, site, node)
    misplace(ears, secrets)
    launch = bring_up(vigil, site, secrets, tmp_path)
    ears.look_at_processes("ready")
    run = measure(vigil, ears)
    refuse_unusable(vigil, ears, site, secrets, tmp_path)
    wait_by_command(vigil, secrets["token"], ears)
    crawl(
        ears,
        vigil,
        {"node": site.name, "launch": launch["id"], "operation": operation(vigil), "token": "ops", "run": run},
    )
    keep_deliveries(vigil, ears, post)
    back_up(vigil)
    ears.look_at_files("running")
    vigil.post("/servers/one/stop", expect=202)
    vigil.wait("one", until="stopped")
    vigil.kill()
    vigil.start()
    assert vigil.get("/servers/one")["state"] == "stopped"
    ears.look_at_files("after kill -9")
    for seen in (digest_of(secrets["token"]), digest_of(secrets["admin"]), "token:ops", "TEST_API_KEY"):
        assert any(name.startswith("vigil.db") for name in ears.where(seen)), f"{seen} should be in the database"
    assert {name: ears.where(secret) for name, secret in secrets.items() if ears.where(secret)} == {}


def take_in(vigil: Vigil, site: Site, node: dict[str, Any]) -> None:
    vigil.post("/nodes", node, expect=201)
    vigil.until_contact(site.name)


def misplace(ears: Ears, secrets: dict[str, str]) -> None:
    """Send secrets where none belong: what refuses them must not repeat them."""
    for header in (f"Bearer {secrets['wrong']}", f"Basic {secrets['basic']}"):
        assert ears.ask("GET", "/api/v1/nodes", headers={"Authorization": header}).status_code == 401
    assert ears.ask("GET", f"/api/v1/nodes?token={secrets['query']}", headers={"Authorization": ""}).status_code == 401
    recipe = {"python": "/opt/python", "model_path": "/m", "gpu_count": 0}
    for field, value in (
        ("server_args", {"api-key": secrets["misplaced_argument"]}),
        ("env", {"HF_TOKEN": secrets["misplaced_variable"]}),
        ("secret_args", {"api-key": secrets["misplaced_argument"]}),
        ("unknown", secrets["unknown_field"]),
    ):
        body = {"name": "bad", "recipe": {**recipe, field: value}}
        assert ears.ask("POST", "/api/v1/profiles", json=body).status_code == 422, field
    headers = {"Content-Type": "application/json"}
    torn = f'{{"name": "{secrets["malformed"]}'
    assert ears.ask("POST", "/api/v1/profiles", content=torn, headers=headers).status_code == 422
    for hook in (
        {"url": "https://192.0.2.1/x", "secret": secrets["misplaced_signature"]},
        {"url": "https://192.0.2.1/x", "secret": {"value": secrets["misplaced_signature"]}},
        {"url": f"https://ops:{secrets['login']}@192.0.2.1/x"},
    ):
        assert ears.ask("POST", "/api/v1/webhooks", json=hook).status_code == 422
    password = {"name": "n", "address": "h", "user": "u", "credential": {"kind": "password", "x": secrets["malformed"]}}
    assert ears.ask("POST", "/api/v1/nodes", json=password).status_code == 422


def bring_up(vigil: Vigil, site: Site, secrets: dict[str, str], tmp_path: Path) -> Any:
    """Launch a server with secrets of both kinds, as an operator; and name one to webhooks."""
    file = tmp_path / "hub-token"
    file.touch(mode=0o600)
    file.write_text(secrets["hub"])
    recipe = {
        **site.recipe(),
        "secret_args": {"api-key": {"env": "TEST_API_KEY"}},
        "secret_env": {"HF_TOKEN": {"file": str(file)}},
    }
    vigil.http.headers["Authorization"] = f"Bearer {secrets['token']}"
    vigil.post("/profiles", {"name": "one", "recipe": recipe}, expect=201)
    vigil.post("/servers", {"name": "one", "profile": "one", "node": site.name, "launch": True}, expect=201)
    server = vigil.wait("one")
    vigil.http.headers["Authorization"] = f"Bearer {secrets['admin']}"
    hook = {"url": "https://192.0.2.1/x", "secret": {"env": "TEST_WEBHOOK"}}
    vigil.post("/webhooks", hook, expect=201)
    assert {row["actor"] for row in vigil.get("/operations")["items"]} == {"token:ops"}
    return server["launch"]


def measure(vigil: Vigil, ears: Ears) -> str:
    """Measure the server by its engine's client, which needs the key; returns the run."""
    vigil.post("/benchmarks", {"name": "small", "workload": WORKLOAD}, expect=201)
    run = str(vigil.post("/benchmark-runs", {"server": "one", "benchmark": "small"}, expect=202)["id"])
    looks = 0
    while (found := vigil.get(f"/benchmark-runs/{run}"))["state"] == "running":
        looks += 1
        ears.look_at_processes(f"measuring {looks}")
    assert found["state"] == "succeeded", found["problem"]
    assert ears.where("--num-prompts"), "the client was seen"
    return run


def refuse_unusable(vigil: Vigil, ears: Ears, site: Site, secrets: dict[str, str], tmp_path: Path) -> None:
    """Launch with a secret that lies open: the start fails, and says why without it."""
    file = tmp_path / "open-token"
    file.write_text(secrets["unusable"])
    file.chmod(0o644)
    recipe = {**site.recipe(), "secret_env": {"HF_TOKEN": {"file": str(file)}}}
    vigil.post("/profiles", {"name": "two", "recipe": recipe}, expect=201)
    ears.ask("POST", "/api/v1/preflights", json={"profile": "two", "node": site.name})
    ears.ask("POST", "/api/v1/servers", json={"name": "two", "profile": "two", "node": site.name, "launch": True})
    vigil.http.post("/api/v1/servers", json={"name": "two", "profile": "two", "node": site.name})
    ears.ask("GET", "/api/v1/servers/two/wait?timeout_s=60")
    ears.ask("GET", "/api/v1/servers/two")
    assert "open-token" in b"".join(ears.heard.values()).decode("utf-8", "replace"), "what is wrong was said"


def keep_deliveries(vigil: Vigil, ears: Ears, post: Post) -> None:
    """Keep what a webhook was told, headers included."""
    vigil.until("the webhook was told that it is ready", lambda: any(b"became_ready" in item.body for item in post.got))
    for number, delivery in enumerate(post.got):
        ears.keep(f"delivery {number}", repr(delivery.headers).encode() + delivery.body)


def back_up(vigil: Vigil) -> None:
    """Write a backup into the state directory, where the files are looked at."""
    environment = {**os.environ, "VIGIL_STATE_DIR": str(vigil.directory)}
    command = [sys.executable, "-m", "service", "backup", str(vigil.directory / "backup.db")]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)


def operation(vigil: Vigil) -> str:
    return str(vigil.get("/operations")["items"][0]["id"])


def wait_by_command(vigil: Vigil, token: str, ears: Ears) -> None:
    """Wait as an operator's script does, and look at the processes meanwhile."""
    environment = {**os.environ, "VIGIL_TOKEN": token, "VIGIL_URL": vigil.url}
    waiting = subprocess.Popen(
        [sys.executable, "-m", "service", "wait", "one", "--until", "stopped", "--timeout", "3"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    ears.look_at_processes("while a command runs")
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 1, err
    ears.keep("vigil wait", out + err)


def crawl(ears: Ears, vigil: Vigil, known: dict[str, str]) -> None:
    """Read every route that can be read, the streams too."""
    names = {"server": "one", "profile": "one", "number": "1", **known}
    document = vigil.http.get("/openapi.json").json()
    read = []
    for path, operations in document["paths"].items():
        places = re.findall(r"\{(\w+)\}", path)
        if "get" not in operations or not names.keys() >= set(places) or path.endswith("/events"):
            continue
        query = "?until=ready&timeout_s=0" if path.endswith("/wait") else ""
        answer = ears.ask("GET", path.format(**names) + query)
        assert answer.status_code < 500, (path, answer.text)
        read.append(path)
    assert {"/api/v1/launches/{launch}/log", "/api/v1/nodes/{node}", "/api/v1/tokens"} <= set(read)
    heard = b""
    with vigil.http.stream("GET", "/api/v1/events?after=0") as stream:
        for chunk in stream.iter_bytes():
            heard += chunk
            if b"became_ready" in heard:
                break
    assert json.loads(heard.split(b"data: ")[1].split(b"\n")[0])
    ears.keep("GET /events", heard)
