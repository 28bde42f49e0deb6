"""SGLang servers on a node that Vigil did not start: which they are, and what is told of them."""

import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.remote.messages import FoundEngine
from service.remote.node import NodeSession
from service.remote.on_node import engines, proc
from service.remote.on_node.members import is_descendant
from service.remote.on_node.proc import Stat
from tests.remote.foreign import Yard
from tests.sshd import Sshd


@pytest.fixture
async def yard(tmp_path: Path, node: NodeSession) -> AsyncIterator[Yard]:
    made = Yard(tmp_path, node)
    yield made
    made.clean_up()


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("python -m sglang.launch_server --port 1", ["--port", "1"]),
        ("/v/bin/python3.11 -u -X utf8 -m sglang.launch_server", []),
        ("python3 -um sglang.launch_server --tp 8", ["--tp", "8"]),
        ("python3 -msglang.launch_server --tp 8", ["--tp", "8"]),
        ("python /src/sglang/launch_server.py --tp 8", ["--tp", "8"]),
        ("/v/bin/python /v/bin/sglang serve acme/tiny --tp 8", ["acme/tiny", "--tp", "8"]),
        ("/v/bin/sglang serve --model-path m", ["--model-path", "m"]),
        ("/v/bin/python /v/bin/sglang generate m", None),
        ("python -m sglang.bench_serving --port 1", None),
        ("python -m", None),
        ("python", None),
        ("", None),
        ("python -c sglang/launch_server.py", None),
        ("python tail.py -m sglang.launch_server", None),
        ("sudo python -m sglang.launch_server", None),
        ("sh -c python -m sglang.launch_server", None),
        ("vim sglang/launch_server.py", None),
        ("sglang::scheduler_TP0", None),
    ],
)
def test_a_servers_command_line_is_told_from_others(line: str, arguments: list[str] | None) -> None:
    assert engines.engine_arguments(line.split()) == arguments


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--api", "sk-1", "--admin-api-k=sk-2"], ["--api", "***", "--admin-api-k=***"]),
        (["--api-key", "sk-1", "--apiary", "b"], ["--api-key", "***", "--apiary", "b"]),
    ],
)
def test_shortened_options_hide_their_values_too(words: list[str], shown: list[str]) -> None:
    assert proc.without_secrets(words) == shown
    assert proc.secrets_in(words)[0] == "sk-1"


async def test_a_foreign_engine_is_found_with_all_that_is_known_of_it(yard: Yard) -> None:
    (yard.root / "models").mkdir()
    foreign = await yard.start("--model-path", "models", "--api-key", "sk-hidden-1")
    found = foreign.found
    stat = proc.read_stat(found.pid)
    assert stat
    assert stat.session == foreign.shell.pid
    words = [sys.executable, "-m", "sglang.launch_server", "--port", str(foreign.port), "--model-path", "models"]
    assert found == FoundEngine(
        pid=stat.pid,
        start_ticks=stat.start_ticks,
        user=proc.user_of(os.getpid()),
        command=(*words, "--api-key", "***"),
        python=sys.executable,
        model_path=str(yard.root / "models"),
        port=foreign.port,
        host="127.0.0.1",
        gpu_uuids=(),
        launch_id=None,
        started_at=found.started_at,
        log_path=str(foreign.log_path),
        member_pids=found.member_pids,
        gpu_error="there is no nvidia-smi",
    )
    assert abs(found.started_at.timestamp() - time.time()) < 30
    commands = [proc.command(pid) or "" for pid in found.member_pids]
    assert {"sleep 61", "sleep 62"} <= set(commands)
    assert len(commands) == 5
    assert foreign.shell.pid not in found.member_pids


async def test_a_config_file_and_short_names_are_understood(yard: Yard) -> None:
    config = yard.root / "engine.yaml"
    config.write_text("model: acme/tiny  # a hub id\nhost: \"0.0.0.0\"\nport: 7\napi-key: 'sk-filed'\n")
    settings = engines.settings_of(os.getpid(), ["--config", str(config), "--host=::"])
    assert settings == {
        "model-path": "acme/tiny", "host": "::", "port": "7", "api-key": "sk-filed", "config": str(config)
    }  # fmt: skip
    assert engines.settings_of(os.getpid(), ["--config", "/none", "--port", "5"])["port"] == "5"
    assert engines.settings_of(os.getpid(), ["--config", "/none"])["port"] == ""


async def test_gpus_are_those_that_the_engines_descendants_hold(yard: Yard, sshd: Sshd) -> None:
    foreign = await yard.start()
    rank = foreign.found.member_pids[-1]
    program = sshd.home / "nvidia-smi"
    program.write_text(
        f"#!/bin/sh\necho 'GPU-b, {rank}, 5, x'\necho 'GPU-a, {foreign.found.pid}, 5, x'\necho 'GPU-c, 1, 5, y'\n"
    )
    program.chmod(0o755)
    before = os.environ["PATH"]
    try:
        os.environ["PATH"] = f"{sshd.home}:{before}"
        described = engines.find_engines({})["engines"]
    finally:
        os.environ["PATH"] = before
        program.unlink()
    (found,) = [engine for engine in described if engine["pid"] == foreign.found.pid]
    assert (found["gpu_uuids"], found["gpu_error"]) == (["GPU-a", "GPU-b"], None)


def test_membership_by_descent_ends_at_the_roots() -> None:
    family = {pid: Stat(pid, "S", parent, 1, 1, 0, 1, pid * 10, 0) for pid, parent in ((5, 1), (6, 5), (7, 6), (8, 7))}
    assert [pid for pid in family if is_descendant(family[pid], {(6, 60)}, read=family.get)] == [6, 7, 8]
    assert not is_descendant(family[7], {(6, 61)}, read=family.get)
    loop = {pid: family[pid]._replace(parent=15 - pid) for pid in (7, 8)}
    assert not is_descendant(loop[7], {(6, 60)}, read=loop.get)
