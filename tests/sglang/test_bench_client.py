"""The command of the engine's benchmark client, by version, and its progress from its log."""

from pathlib import Path

import pytest

from service.sglang.bench_client import (
    STAGE_MARKS,
    STAGES,
    ClientProgress,
    ClientRun,
    ClientStage,
    FilePrompts,
    RandomIdsPrompts,
    SharedPrefixPrompts,
    client_command,
    client_key,
    read_progress,
)

LOG = (Path(__file__).parents[1] / "benchmarks" / "files" / "client-0.5.23.log").read_bytes().decode()
PYTHON = "/opt/sglang/bin/python"


def run(prompts: RandomIdsPrompts | FilePrompts | SharedPrefixPrompts, **more: object) -> ClientRun:
    fields: dict[str, object] = {
        "host": "127.0.0.1",
        "port": 30000,
        "model_path": "/models/m",
        "served_model_name": "m",
        "num_prompts": 50,
        "seed": 43,
        "warmup_requests": 8,
        "output_file": "/run/result.jsonl",
        "max_concurrency": 4,
        **more,
    }
    return ClientRun(prompts=prompts, **fields)  # type: ignore[arg-type]


def flag(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_the_newest_version_gets_everything() -> None:
    ids = RandomIdsPrompts(input_tokens=128, output_tokens=32)
    limits = {"ttft": 500.0, "tpot": 33.5}
    command = client_command(run(ids, goodput_ms=limits, tag="r1"), python=PYTHON, engine_version="0.5.23")
    assert command.argv == (
        *(PYTHON, "-m", "sglang.benchmark.serving", "--backend", "sglang", "--host", "127.0.0.1", "--port", "30000"),
        *("--model", "/models/m", "--served-model-name", "m", "--tokenizer", "/models/m"),
        *("--dataset-name", "random-ids", "--random-range-ratio", "1.0", "--tokenize-prompt"),
        *("--random-input-len", "128", "--random-output-len", "32", "--num-prompts", "50", "--seed", "43"),
        *("--request-rate", "inf", "--warmup-requests", "8", "--ready-check-timeout-sec", "30"),
        *("--max-concurrency", "4", "--output-file", "/run/result.jsonl", "--output-details", "--tag", "r1"),
        *("--flush-cache", "--flush-cache-timeout", "60", "--cache-report", "--goodput", "ttft:500", "tpot:33.5"),
    )
    assert command.left_out == ()
    assert command.environment["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize(
    ("version", "module", "absent"),
    [
        ("0.5.10.post1", "sglang.bench_serving", {"--goodput", "--cache-report", "--flush-cache-timeout"}),
        ("0.5.16", "sglang.benchmark.serving", {"--goodput", "--flush-cache-timeout"}),
        ("0.5.23", "sglang.benchmark.serving", set()),
        (None, "sglang.benchmark.serving", set()),
    ],
)
def test_an_older_version_gets_what_it_knows_and_says_what_it_lacks(
    version: str | None, module: str, absent: set[str]
) -> None:
    ids = RandomIdsPrompts(input_tokens=128, output_tokens=32)
    command = client_command(run(ids, goodput_ms={"ttft": 500.0}), python=PYTHON, engine_version=version)
    assert command.argv[2] == module
    optional = {"--goodput", "--cache-report", "--flush-cache-timeout"}
    assert optional - set(command.argv) == absent
    assert len(command.left_out) == len(absent - {"--flush-cache-timeout"})


def test_an_open_loop_has_a_rate_and_no_cap() -> None:
    ids = RandomIdsPrompts(input_tokens=128, output_tokens=32)
    argv = client_command(
        run(ids, max_concurrency=None, request_rate_rps=2.5), python=PYTHON, engine_version="0.5.23"
    ).argv
    assert flag(argv, "--request-rate") == "2.5"
    assert "--max-concurrency" not in argv


def test_a_file_of_chats_goes_through_the_chat_interface() -> None:
    chats = FilePrompts(dataset="openai", path="/data/chats.jsonl", output_tokens=None)
    argv = client_command(run(chats), python=PYTHON, engine_version="0.5.23").argv
    assert flag(argv, "--backend") == "sglang-oai-chat"
    assert flag(argv, "--dataset-path") == "/data/chats.jsonl"
    assert "--sharegpt-output-len" not in argv


def test_a_file_may_have_its_answers_cut() -> None:
    prompts = FilePrompts(dataset="custom", path="/data/p.jsonl", output_tokens=64)
    command = client_command(
        run(prompts, has_ignore_eos=False, has_flush=False), python=PYTHON, engine_version="0.5.23"
    )
    assert flag(command.argv, "--sharegpt-output-len") == "64"
    assert "--disable-ignore-eos" in command.argv
    assert "--flush-cache" not in command.argv


def test_a_shared_prefix_has_fixed_lengths() -> None:
    prompts = SharedPrefixPrompts(
        groups=4, prompts_per_group=8, prefix_tokens=2048, question_tokens=128, output_tokens=256
    )
    argv = client_command(run(prompts), python=PYTHON, engine_version="0.5.16").argv
    assert flag(argv, "--gsp-range-ratio") == "1.0"
    assert [flag(argv, f"--gsp-{name}") for name in ("num-groups", "prompts-per-group", "system-prompt-len")] == [
        *("4", "8", "2048")
    ]


def test_a_real_log_tells_the_stages_in_their_order() -> None:
    ends = [LOG.index(text) for text in ("Starting warmup", "Warmup completed", "| 0/12", "=== Serving")]
    stages = [read_progress(LOG[: end + 60]).stage for end in ends]
    assert stages[0] is ClientStage.WARMING_UP
    assert read_progress(LOG[:200]).stage is ClientStage.PREPARING
    assert read_progress(LOG) == ClientProgress(ClientStage.REPORTING, done=12, total=12)


def test_progress_never_goes_back_wherever_the_log_is_cut() -> None:
    order = list(ClientStage)
    seen = [read_progress(LOG[:end]) for end in range(0, len(LOG), 7)]
    stages = [order.index(progress.stage) for progress in seen]
    assert stages == sorted(stages)
    assert [progress.done for progress in seen] == sorted(progress.done for progress in seen)
    assert len({progress.done for progress in seen}) > 3


def test_the_bar_of_the_preparation_is_not_the_measurement() -> None:
    preparing = "Generating shared-prefix prompts:  50%|#####     | 3/6 [00:01<00:01,  2.9it/s]\n"
    assert read_progress(preparing) == ClientProgress(ClientStage.PREPARING)
    measuring = preparing + "Warmup completed with 2 sequences. Starting main benchmark run...\n"
    assert read_progress(measuring) == ClientProgress(ClientStage.MEASURING)


def test_printed_exceptions_are_counted() -> None:
    log = "Starting main benchmark run...\noutput.error='Traceback'\n\r 50%|## | 1/2 [00:01<00:01, 1.0it/s]"
    assert read_progress(log) == ClientProgress(ClientStage.MEASURING, done=1, total=2, failed=1)


@pytest.mark.parametrize(
    ("secrets", "value", "can_flush"),
    [
        ({}, None, True),
        ({"api-key": "k"}, "k", True),
        ({"admin-api-key": "a"}, "a", True),
        ({"api-key": "k", "admin-api-key": "a"}, "k", False),
        ({"api-key": "k", "admin-api-key": "k"}, "k", True),
    ],
)
def test_a_client_has_one_key(secrets: dict[str, str], value: str | None, *, can_flush: bool) -> None:
    key = client_key(secrets)
    assert (key.value, key.can_flush) == (value, can_flush)
    assert value is None or repr(value) not in repr(key)


def test_the_marks_lead_through_the_stages() -> None:
    log = ""
    for stage, mark in zip(STAGES[1:], STAGE_MARKS, strict=True):
        log += f"... {mark}\n"
        assert read_progress(log).stage is stage


def test_limits_reach_the_client_with_all_their_digits() -> None:
    limits = {"ttft": 33.333333, "e2el": 1_234_567.0}
    command = client_command(run(RandomIdsPrompts(8, 8), goodput_ms=limits), python=PYTHON, engine_version="0.5.23")
    assert command.argv[-2:] == ("ttft:33.333333", "e2el:1234567")
