"""An engine asked about its arguments in its own Python: what it sees, what it may not, and what is left behind."""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.remote import judgements
from service.remote.bundle import argument_probe
from service.remote.checkpoints import ModelWish
from service.remote.node import NodeSession
from service.remote.on_node import argument_judge
from service.remote.on_node.gpu_facts import capability_of
from service.sglang.judgement import EngineOption, EnvironmentFault, GpuStandIn, JudgedBy, Judgement
from tests.remote.engine_packages import EngineFolder

H200 = GpuStandIn("NVIDIA H200", 143_771)
ARGV = ("--model-path", "/models/m", "--port", "31000")


@pytest.fixture
def engine(tmp_path: Path) -> EngineFolder:
    return EngineFolder(tmp_path / "packages")


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let whatever the judge leaves behind be seen."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def judge(
    engine: EngineFolder | None,
    *argv: str,
    gpus: tuple[GpuStandIn, ...] = (),
    environment: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> Judgement:
    request: dict[str, Any] = {
        "python": python,
        "argv": [*ARGV, *argv],
        "environment": {**(engine.environment if engine else {}), **(environment or {})},
        "gpus": judgements.gpu_rows(gpus),
        "probe": argument_probe(),
    }
    answer = json.loads(json.dumps(argument_judge.judge_arguments(request)))
    return judgements.judgement(answer)


async def test_the_engine_is_asked_over_the_connection(node: NodeSession, engine: EngineFolder) -> None:
    said = await node.judge_arguments(
        python=sys.executable, argv=[*ARGV, "--tp-size", "2"], environment=engine.environment, gpus=[H200]
    )
    assert (said.how, said.engine_version, said.parse_errors) == (JudgedBy.ENGINE_RESOLVED, "9.9.9", ())
    assert EngineOption(("--tp-size", "--tensor-parallel-size")) in said.options
    assert EngineOption(("--old-flag",), "Deprecated. Use --tp-size instead.") in said.options
    assert said.stand_in == "torch.cuda and nvidia-smi answered from facts of 1 x NVIDIA H200"
    assert said.times.imports_s is not None
    assert said.times.resolve_s is not None


async def test_stamps_tell_when_something_changed(node: NodeSession, engine: EngineFolder, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    wishes = [ModelWish(str(model)), ModelWish("acme/absent")]

    async def stamps(**environment: str) -> Any:
        variables = {**engine.environment, **environment}
        return await node.judgement_stamps(python=sys.executable, models=wishes, environment=variables)

    first = await stamps()
    assert first == await stamps()
    assert (first.engine_version, first.models[1]) == ("9.9.9", "absent")
    (model / "config.json").write_text('{"a": 1}')
    assert (await stamps()).models[0] != first.models[0]
    assert (await stamps()).engine == first.engine
    assert (await stamps(SGLANG_SOMETHING="1")).login != first.login
    engine.resolves("raise ValueError('another engine')")
    assert (await stamps()).engine != first.engine


async def test_stamps_of_a_python_that_is_none(node: NodeSession) -> None:
    for python in ("/no/such/python", "/bin/true"):
        found = await node.judgement_stamps(python=python, models=[], environment={})
        assert found.engine_version is None


def test_every_error_of_the_parser_is_told(engine: EngineFolder) -> None:
    said = judge(engine, "--cuda-graph-max-bs", "1", "--dtype", "fp12", "--nope", "5", "--tp-size", "x", "--no=1")
    assert said.how is JudgedBy.ENGINE_PARSED_ONLY
    assert said.unjudged is None
    assert said.is_definite
    errors = "\n".join(said.parse_errors)
    assert (
        "ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, --cuda-graph-max-bs-p" in errors
    )
    assert "argument --dtype: invalid choice: 'fp12'" in errors
    assert "argument --tp-size/--tensor-parallel-size: invalid int value: 'x'" in errors
    assert "unrecognized arguments: --nope 5 --no=1" in errors
    assert len(said.parse_errors) == 4


def test_a_refusal_of_resolution_is_told_with_its_line(engine: EngineFolder) -> None:
    engine.resolves("logging.warning('first a warning')\nassert self.args.tp_size == 1")
    said = judge(engine, "--tp-size", "2")
    assert said.how is JudgedBy.ENGINE_RESOLVED
    error = said.resolution_error
    assert error is not None
    assert (error.kind, error.message, error.file) == ("AssertionError", "", "sglang/srt/server_args.py")
    assert (error.function, error.source) == ("resolve_once", "assert self.args.tp_size == 1")
    assert said.warnings == ("first a warning",)
    assert judge(engine, "--tp-size", "1").resolution_error is None


def test_the_gpus_are_hidden_and_stood_in_for(engine: EngineFolder) -> None:
    engine.resolves(
        "assert os.environ['CUDA_VISIBLE_DEVICES'] == '' and os.environ['HF_HUB_OFFLINE'] == '1'\n"
        "seen = (torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.get_device_name(1),\n"
        "        torch.cuda.get_device_capability('cuda:1'), torch.cuda.mem_get_info(), "
        "torch.cuda.get_device_properties(0).major)\n"
        "smi = [subprocess.run(['nvidia-smi', '--query-gpu=' + what, '--format=csv,noheader,nounits'],\n"
        "        capture_output=True, text=True) for what in ('memory.total', 'compute_cap', 'power.draw')]\n"
        "raise ValueError(repr((seen, [(one.returncode, one.stdout) for one in smi])))"
    )
    environment = {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}
    said = judge(engine, gpus=(H200, GpuStandIn("NVIDIA Strange", 24_000, "8.9")), environment=environment)
    assert said.resolution_error is not None, said
    size = 143_771 << 20
    assert said.resolution_error.message == repr(
        (
            (True, 2, "NVIDIA Strange", (8, 9), (size, size), 9),
            [(0, "143771\n24000\n"), (0, "9.0\n8.9\n"), (9, "")],
        )
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("torch.cuda._lazy_init()", "a GPU was wanted, not a fact of it"),
        ("torch.cuda.get_device_properties().multi_processor_count", "multi_processor_count of a GPU is not known"),
        ("try:\n    torch.cuda.init()\nexcept Exception as e:\n    raise ValueError('wrapped') from e", "was wanted"),
        ("socket.create_connection(('192.0.2.1', 80))", "a preflight does not go to 192.0.2.1"),
        ("socket.getaddrinfo('hub.example', 443)", "a preflight does not look for hub.example"),
        ("raise RuntimeError('No accelerator (CUDA) is available')", "the GPUs are hidden while arguments are judged"),
        ("raise RuntimeError('Found no NVIDIA driver on your system.')", "the GPUs are hidden"),
        ("os._exit(7)", "the engine's process ended with status 7"),
        ("os.kill(os.getpid(), 9)", "the engine's process ended with status -9"),
    ],
)
def test_a_failure_that_lies_in_the_looking_is_no_verdict(engine: EngineFolder, body: str, reason: str) -> None:
    engine.resolves(body)
    said = judge(engine, gpus=(H200,))
    assert (said.how, said.resolution_error) == (JudgedBy.ENGINE_PARSED_ONLY, None)
    assert reason in (said.unjudged or "")
    assert said.options
    assert not said.is_definite


def test_memory_that_the_driver_does_not_count_is_not_guessed(engine: EngineFolder) -> None:
    engine.resolves(
        "assert '[N/A]' in subprocess.run(['nvidia-smi', '--query-gpu=memory.total'], capture_output=True, "
        "text=True).stdout\ntorch.cuda.mem_get_info()"
    )
    said = judge(engine, gpus=(GpuStandIn("NVIDIA GB10", 0),))
    assert "the memory of NVIDIA GB10 is not known" in (said.unjudged or ""), said


def test_a_gpu_of_unknown_capability_is_not_guessed(engine: EngineFolder) -> None:
    engine.resolves("torch.cuda.get_device_capability()")
    said = judge(engine, gpus=(GpuStandIn("NVIDIA Strange", 24_000),))
    assert "the compute capability of NVIDIA Strange is not known" in (said.unjudged or "")


@pytest.mark.parametrize("body", ["raise ValueError('CUDA errors may follow')", "raise ImportError('install ray')"])
def test_the_engines_own_refusals_stay_refusals_with_gpus(engine: EngineFolder, body: str) -> None:
    engine.resolves(body)
    assert judge(engine, gpus=(H200,)).resolution_error is not None


def test_a_torch_without_cuda_is_not_stood_in_for(engine: EngineFolder) -> None:
    engine.write("torch/__init__.py", "from types import SimpleNamespace\nversion = SimpleNamespace(cuda=None)\n")
    assert judge(engine, gpus=(H200,)).stand_in is None


def test_a_model_that_would_be_downloaded_is_not(engine: EngineFolder) -> None:
    engine.resolves("class LocalEntryNotFoundError(OSError): pass\nraise LocalEntryNotFoundError('not in the cache')")
    said = judge(engine)
    assert "a preflight downloads nothing" in (said.unjudged or "")
    forbidden = judge(engine, environment={"HF_HUB_OFFLINE": "1"})
    assert forbidden.unjudged is None
    assert forbidden.resolution_error is not None, "the launch itself is offline, so it ends with this as well"


def test_nothing_is_left_behind(engine: EngineFolder, tmp_path: Path, own_temporary_folder: Path) -> None:
    engine.resolves(
        "child = subprocess.Popen(['sleep', '300'])\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write('%d %d' % (child.pid, os.getpid()))\n"
        "open('here', 'w').close()\nimport tempfile\ntempfile.mkdtemp()"
    )
    said = judge(engine)
    assert said.how is JudgedBy.ENGINE_RESOLVED
    pids = (tmp_path / "pids").read_text().split()
    assert [pid for pid in pids if _is_alive(pid)] == []
    assert list(own_temporary_folder.iterdir()) == []


def _is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_engine_that_takes_too_long_is_ended(
    engine: EngineFolder, monkeypatch: pytest.MonkeyPatch, own_temporary_folder: Path
) -> None:
    monkeypatch.setattr(argument_judge, "PATIENCE_S", 1.0)
    engine.resolves("time.sleep(60)")
    said = judge(engine)
    assert said.how is JudgedBy.ENGINE_PARSED_ONLY
    assert "the engine was not done within 1 s" in (said.unjudged or "")
    engine.write("sglang/srt/server_args.py", "import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    late = judge(engine)
    assert (late.how, late.engine_version) == (JudgedBy.RULES, "9.9.9")
    assert "it said last: importing" in (late.unjudged or "")
    assert list(own_temporary_folder.iterdir()) == []


def test_a_flood_of_output_is_bounded(engine: EngineFolder) -> None:
    engine.resolves("for _ in range(200):\n    print('x' * 100_000)\nraise ValueError('y' * 1_000_000)")
    said = judge(engine)
    assert said.resolution_error is not None
    assert len(said.resolution_error.message) == 2000


def test_an_engine_of_the_older_kind_checks_after_parsing(engine: EngineFolder) -> None:
    text = (engine.folder / "sglang/srt/server_args.py").read_text()
    old = text.replace(
        "def resolve_once(self):\n        pass", "def check_server_args(self):\n        raise ValueError"
    )
    engine.write("sglang/srt/server_args.py", old)
    said = judge(engine)
    assert said.resolution_error is not None
    assert said.resolution_error.function == "check_server_args"


def test_without_the_known_interface_its_help_is_read(engine: EngineFolder) -> None:
    engine.write("sglang/srt/server_args.py", "")
    engine.write(
        "sglang/launch_server.py",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--tp-size')\n"
        "p.add_argument('--' + 'very-' * 20 + 'long', help='Deprecated. Use --tp-size instead.')\np.parse_args()\n",
    )
    said = judge(engine)
    assert (said.how, said.engine_version) == (JudgedBy.HELP_TEXT, "9.9.9")
    assert [option.names[0] for option in said.options] == ["--help", "--tp-size", "--" + "very-" * 20 + "long"]
    assert "no such interface" in (said.unjudged or "")
    engine.write("sglang/launch_server.py", "raise SystemExit(1)")
    assert judge(engine).how is JudgedBy.RULES


@pytest.mark.parametrize(
    ("python", "fault"),
    [
        ("/no/such/python", EnvironmentFault.PYTHON_MISSING),
        ("no-such-python", EnvironmentFault.PYTHON_MISSING),
        ("/etc/passwd", EnvironmentFault.PYTHON_NOT_EXECUTABLE),
        ("/tmp", EnvironmentFault.PYTHON_NOT_EXECUTABLE),
        (sys.executable, EnvironmentFault.ENGINE_MISSING),
    ],
)
def test_an_environment_that_cannot_be_used_is_told(python: str, fault: EnvironmentFault) -> None:
    said = judge(None, python=python)
    assert said.environment_fault is fault
    assert said.environment_detail


def test_a_program_that_is_no_python_is_told() -> None:
    said = judge(None, python="/bin/echo")
    assert (said.how, said.environment_fault) == (JudgedBy.RULES, EnvironmentFault.PYTHON_NOT_EXECUTABLE)
    assert "it is no Python that runs: the engine's process ended with status 0" in (said.environment_detail or "")


def test_an_engine_that_cannot_be_imported_is_told(engine: EngineFolder) -> None:
    engine.write("sglang/srt/server_args.py", "import no_such_package\n")
    said = judge(engine)
    assert (said.environment_fault, said.engine_version) == (EnvironmentFault.IMPORT_FAILED, "9.9.9")
    assert said.environment_detail == (
        "ModuleNotFoundError: No module named 'no_such_package' (sglang/srt/server_args.py:1 in <module>)"
    )


def test_an_import_that_the_hidden_gpus_break_is_no_verdict(engine: EngineFolder) -> None:
    engine.write("sglang/srt/server_args.py", "import torch\ntorch.cuda._lazy_init()\n")
    said = judge(engine, gpus=(H200,))
    assert (said.how, said.environment_fault) == (JudgedBy.RULES, None)
    assert "without touching it" in (said.unjudged or "")


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA H20", "9.0"),
        ("NVIDIA GH200 480GB", "9.0"),
        ("NVIDIA A100-SXM4-80GB", "8.0"),
        ("NVIDIA A10G", "8.6"),
        ("NVIDIA L40S", "8.9"),
        ("NVIDIA L4", "8.9"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("NVIDIA GeForce RTX 4090", "8.9"),
        ("NVIDIA GeForce RTX 5090", "12.0"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0"),
        ("NVIDIA B200", "10.0"),
        ("NVIDIA GB200", "10.0"),
        ("NVIDIA B300 SXM6 AC", "10.3"),
        ("Tesla T4", "7.5"),
        ("Tesla V100-SXM2-32GB", "7.0"),
        ("NVIDIA L400", None),
        ("NVIDIA Strange", None),
    ],
)
def test_capabilities_by_name(name: str, capability: str | None) -> None:
    assert capability_of({"name": name, "compute_capability": None}) == capability
    assert capability_of({"name": name, "compute_capability": "1.2"}) == "1.2"


def test_an_unknown_name_is_asked_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '7.0, NVIDIA Other'\necho '12.4, NVIDIA Strange'\n")
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert capability_of({"name": "NVIDIA Strange", "compute_capability": None}) == "12.4"
