"""The stand-in of the engine answers a preflight about its arguments as the real one: the same way, and at once."""

import json
import subprocess
from collections.abc import Callable

import pytest

from service.remote import judgements
from service.remote.bundle import PYTHON_ARGV, argument_probe, payload
from service.sglang.argument_checks import check_arguments
from service.sglang.arguments import ArgumentValue, argument_tokens
from service.sglang.checks import Check, Outcome
from service.sglang.judgement import GpuStandIn, JudgedBy, Judgement
from service.simulator.homes import engine_python, session_environment
from service.simulator.specs import ENGINE_VERSIONS, TINY_LLAMA
from tests.simulator.engines import EngineHome

MARK = b"VIGIL1 "
Judge = Callable[..., Judgement]


@pytest.fixture
def judge(home: EngineHome) -> Judge:
    def ask(version: str, arguments: dict[str, ArgumentValue], *, gpu_count: int = 2, model: str = "") -> Judgement:
        argv = ["--model-path", model or home.model(TINY_LLAMA.name)]
        argv += [token for name, value in arguments.items() for token in argument_tokens(name, value)]
        request = {
            "python": str(engine_python(home.path, version)),
            "argv": [*argv, "--port", "31000"],
            "environment": {},
            "gpus": judgements.gpu_rows([GpuStandIn("NVIDIA H200", 143_771)] * gpu_count),
            "probe": argument_probe(),
        }
        done = subprocess.run(
            PYTHON_ARGV,
            input=payload("judge_arguments", request, limit_s=60),
            env=session_environment(home.spec, home.path),
            capture_output=True,
            check=True,
        )
        return judgements.judgement(json.loads(done.stdout.rpartition(MARK)[2])["result"])

    return ask


def arguments_check(said: Judgement, arguments: dict[str, ArgumentValue]) -> Check:
    return check_arguments(said, arguments, engine_version=None)[1]


@pytest.mark.parametrize("version", ENGINE_VERSIONS)
def test_right_arguments_are_resolved_on_gpus_that_are_hidden(judge: Judge, version: str) -> None:
    said = judge(version, {"tp-size": 2})
    assert (said.how, said.engine_version, said.resolution_error) == (JudgedBy.ENGINE_RESOLVED, version, None)
    assert said.stand_in == "torch.cuda and nvidia-smi answered from facts of 2 x NVIDIA H200"
    assert arguments_check(said, {"tp-size": 2}).outcome is Outcome.PASS
    assert said.times.total_s < 2, "a tenth of that on a machine with nothing else to do"


@pytest.mark.parametrize("version", ENGINE_VERSIONS)
def test_two_of_three_speculative_numbers_are_told_with_the_line(judge: Judge, version: str) -> None:
    arguments: dict[str, ArgumentValue] = {"speculative-algorithm": "EAGLE3", "speculative-num-draft-tokens": 16}
    said = judge(version, arguments)
    assert said.resolution_error is not None
    assert said.resolution_error.file in {"sglang/srt/server_args.py", "sglang/srt/arg_groups/speculative_hook.py"}
    check = arguments_check(said, arguments)
    assert check.outcome is Outcome.FAIL
    assert "a bare AssertionError at sglang/srt/" in check.found
    assert check.remedy == "add --speculative-num-steps and --speculative-eagle-topk, or give none of the three"


def test_unknown_and_deprecated_flags_come_with_what_to_write(judge: Judge) -> None:
    arguments: dict[str, ArgumentValue] = {"num-speculative-tokens": 5, "disable-cuda-graph": True, "pp": 2}
    check = arguments_check(judge("0.5.23", arguments), arguments)
    assert check.outcome is Outcome.FAIL
    remedies = (check.remedy or "").split("; ")
    assert remedies == [
        "did you mean --speculative-num-draft-tokens?",
        "write --pp-size",
        "write --cuda-graph-backend-{decode,prefill}=disabled",
    ]


def test_a_node_with_gpus_that_the_launch_does_not_get_is_not_judged(judge: Judge) -> None:
    said = judge("0.5.23", {}, gpu_count=0)
    assert "No accelerator" in (said.unjudged or "")
    assert judge("0.5.23", {"device": "cpu"}, gpu_count=0).how is JudgedBy.ENGINE_RESOLVED


def test_a_model_of_the_hub_is_not_downloaded(judge: Judge) -> None:
    assert "a preflight downloads nothing" in (judge("0.5.23", {}, model="acme/absent").unjudged or "")
