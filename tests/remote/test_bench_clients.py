"""Benchmark clients on a node: run as a launch is, looked at, read without their secrets, and sampled meanwhile."""

import json
import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from service.errors import RemoteCommandFailed
from service.remote.bench_clients import RESULT_FILE, ClientOutcome
from service.remote.bench_sampling import SamplingOrder
from service.remote.messages import LaunchOrder, Refusal, SignalStep
from service.remote.node import NodeSession
from service.remote.observing import MetricsWish
from service.servers.observation import ProcessState
from tests.remote.conftest import Launches, eventually

HIDDEN = ("api_key", "launch_command")
GPU = "GPU-1"
SECRET = "sk-known-to-vigil"  # noqa: S105  made up here
OWN_SECRET = "adopted-key"  # noqa: S105  made up here


async def ended(node: NodeSession, order: LaunchOrder) -> bytes:
    """Start an order, wait for its end, and return its log."""
    await node.stage_and_start(order)
    offset, log = 0, b""
    for _ in range(200):
        look = await node.look_at_client(order.launch_id, offset=offset)
        log += look.log.data
        offset = look.log.next_offset
        if look.state is not ProcessState.RUNNING and look.state is not ProcessState.PENDING:
            return log
    raise AssertionError("it did not end")


def writing(text: str) -> str:
    return f"printf '%s\\n' {shlex.quote(text)} >> {RESULT_FILE}"


async def read(node: NodeSession, launches: Launches, script: str, **fields: Any) -> ClientOutcome:
    order = launches.shell(script, **fields)
    await ended(node, order)
    return await node.read_client_result(order.launch_id, hidden_fields=HIDDEN)


def document(outcome: ClientOutcome) -> Any:
    assert outcome.file is not None
    return json.loads(outcome.file.content)


async def test_a_client_is_looked_at_while_it_runs_and_when_it_has_ended(node: NodeSession, launches: Launches) -> None:
    order = launches.shell(f"echo first; sleep 0.5; {writing('{}')}; echo last; exit 3")
    await node.stage_and_start(order)
    early = await node.look_at_client(order.launch_id, offset=0)
    assert early.state is ProcessState.RUNNING
    assert early.age_s is not None
    assert early.age_s < 10
    log = early.log.data
    while early.state is ProcessState.RUNNING:
        early = await node.look_at_client(order.launch_id, offset=len(log))
        log += early.log.data
    assert (early.state, early.exit_code, log) == (ProcessState.EXITED, 3, b"first\nlast\n")
    assert early.started_at is not None
    assert early.ended_at is not None


async def test_a_client_that_is_killed_left_no_file(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("exec sleep 60")
    await node.stage_and_start(order)
    await node.signal(order.launch_id, SignalStep.KILL)
    look = await node.look_at_client(order.launch_id, offset=0)
    assert (look.state, look.exit_code) == (ProcessState.EXITED, 137)
    assert (await node.read_client_result(order.launch_id, hidden_fields=HIDDEN)).file is None


async def test_no_secret_and_no_text_leaves_the_node(node: NodeSession, launches: Launches) -> None:
    info = {"api_key": OWN_SECRET, "nested": [{"api_key": "ab"}], "note": f"x {OWN_SECRET} y {SECRET}", "port": 1}
    written = {"server_info": {**info, "launch_command": "--api-key ab"}, "generated_texts": ["hello"], "rate": 1.5}
    text = json.dumps({**written, "request_rate": float("inf"), "itls": [[0.1]]})
    outcome = await read(node, launches, writing(text), secrets=(SECRET,))
    assert outcome.file is not None
    for secret in (SECRET.encode(), OWN_SECRET.encode(), b"hello", b"--api-key"):
        assert secret not in outcome.file.content
    kept = document(outcome)
    assert kept["server_info"]["nested"] == [{"api_key": "*****"}]
    assert kept["server_info"]["port"] == 1
    assert (kept["rate"], kept["request_rate"], kept["itls"]) == (1.5, float("inf"), [[0.1]])
    assert outcome.file.left_out == ("generated_texts",)
    assert (outcome.file.sha256, outcome.file.size_bytes) == (
        sha256(f"{text}\n".encode()).hexdigest(),
        len(text) + 1,
    )


async def test_gaps_are_left_on_the_node_when_they_are_too_many(
    node: NodeSession, launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.remote.bench_clients.RESULT_LIMIT_BYTES", 200)
    outcome = await read(node, launches, writing(json.dumps({"itls": [0.125] * 100, "completed": 3})))
    assert document(outcome) == {"completed": 3}
    assert outcome.file is not None
    assert outcome.file.left_out == ("itls",)
    with pytest.raises(RemoteCommandFailed) as raised:
        await read(node, launches, writing(json.dumps({"ttfts": [0.125] * 100})))
    assert raised.value.context["refusal"] is Refusal.RESULT_TOO_LARGE


@pytest.mark.parametrize("text", ["not json", '{"cut": [1, 2', "[" * 5000, '{"a": 1}\n{"b": 2}'])
async def test_what_is_no_result_comes_as_it_is(node: NodeSession, launches: Launches, text: str) -> None:
    outcome = await read(node, launches, writing(text))
    assert outcome.file is not None
    assert outcome.file.content.decode() == f"{text}\n"


async def test_a_file_is_hashed(node: NodeSession, tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(b"x" * 3_000_000)
    digest = await node.hash_file(str(path))
    assert (digest.sha256, digest.size_bytes) == (sha256(path.read_bytes()).hexdigest(), 3_000_000)
    for wrong in (tmp_path, tmp_path / "absent", Path("/dev/zero")):
        with pytest.raises(RemoteCommandFailed) as raised:
            await node.hash_file(str(wrong))
        assert raised.value.context["refusal"] is Refusal.FILE_UNREADABLE


@contextmanager
def page(text: str) -> Iterator[int]:
    """Serve one page of metrics."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fake_driver(folder: Path, rows: str) -> Mapping[str, str]:
    """Put an nvidia-smi that prints these rows first on the path."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(rows)}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


async def test_counters_and_gpus_are_sampled_beside_it(node: NodeSession, launches: Launches, tmp_path: Path) -> None:
    rows = f"{GPU}, 87, 612.50, 700.00, 71234\nGPU-2, [N/A], [N/A], 700.00, 3"
    environment = fake_driver(tmp_path, rows)
    script = "sleep 0.8; echo prepared; sleep 1.2; printf 'no '; echo report; sleep 0.6"
    with page("sglang:num_running_reqs 7\nsglang:other 1\n") as port:
        order = launches.shell(script, environment=environment)
        wish = MetricsWish("/metrics", ["sglang:num_running_reqs"], every_s=0.3)
        sampling = SamplingOrder(order.launch_id, "127.0.0.1", port, [GPU], ["prepared", "no report"], wish)
        order = launches.shell(script, launch_id=order.launch_id, environment=environment, beside=sampling.program())
        await ended(node, order)
    outcome = await node.read_client_result(order.launch_id, hidden_fields=())
    lines = [json.loads(line) for line in outcome.samples.splitlines()]
    assert {line["stage"] for line in lines} == {0, 1, 2}
    assert {line["metrics"] for line in lines if "metrics" in line} == {"sglang:num_running_reqs 7\n"}
    gpus = [line["gpus"] for line in lines if "gpus" in line]
    assert len(gpus) >= 4
    assert gpus[0] == [[GPU, "87", "612.50", "700.00", "71234"]]
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    await eventually(lambda: not launches.pids(order))


async def test_a_driver_that_fails_leaves_no_sample(node: NodeSession, launches: Launches, tmp_path: Path) -> None:
    environment = fake_driver(tmp_path, "Unable to determine the device handle")
    order = launches.shell("sleep 0.6", environment=environment)
    wish = MetricsWish("/metrics", ["x"], every_s=0.2)
    sampling = SamplingOrder(order.launch_id, "127.0.0.1", 1, [GPU], [], wish)
    order = launches.shell("sleep 0.6", launch_id=order.launch_id, environment=environment, beside=sampling.program())
    await ended(node, order)
    assert (await node.read_client_result(order.launch_id, hidden_fields=())).samples == b""
