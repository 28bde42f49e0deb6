"""Vigil's own runs: the command that a workload comes to, and the result that its file comes to."""

from datetime import UTC, datetime, timedelta

import pytest

from service.benchmarks.comparability import comparability_key
from service.benchmarks.importing import RejectionReason, ResultFileRejected
from service.benchmarks.own_runs import RepeatContext, Target, read_own_result, run_command
from service.benchmarks.presets import PRESETS
from service.benchmarks.results import AcceptScope, HostProvenance, LoadMode, ResultStatus, ServerProvenance
from service.benchmarks.workload import (
    ClosedLoad,
    FileLayout,
    GoodputLimits,
    NodeFile,
    OpenLoad,
    RandomIds,
    Workload,
)
from tests.benchmarks.tool_files import FILES, sglang_line

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
WORKLOAD = Workload(
    dataset=RandomIds(input_tokens=32, output_tokens=16),
    load=ClosedLoad(concurrency=3),
    num_prompts=12,
    goodput=GoodputLimits(ttft_ms=2000, tpot_ms=200),
)
TARGET = Target(
    host="127.0.0.1",
    port=30000,
    python="/opt/sglang/bin/python",
    engine_version="0.5.23",
    model_path="/models/m",
    served_model_name="m",
)


def context(workload: Workload = WORKLOAD, repeat: int = 0) -> RepeatContext:
    return RepeatContext(
        point=workload.points()[0],
        repeat_index=repeat,
        run_id="bmr_1",
        started_at=START,
        ended_at=START + timedelta(seconds=30),
        argv=("python", "-m", "sglang.benchmark.serving"),
        server=ServerProvenance(engine="sglang", engine_version="0.5.23", model_id="m", server_instance_id="lnc_1"),
        host=HostProvenance(host_id="nod_1", gpu_model="B200", gpu_count_used=2),
    )


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_comes_to_a_command(name: str) -> None:
    for point in PRESETS[name].points():
        command = run_command(PRESETS[name], point, TARGET, repeat_index=0, output_file="/r/result.jsonl", tag="t")
        assert command.argv[command.argv.index("--num-prompts") + 1] == str(point.num_prompts)
        assert ("--max-concurrency" in command.argv) == (point.concurrency is not None)


def test_each_repeat_has_its_own_seed() -> None:
    commands = [
        run_command(WORKLOAD, WORKLOAD.points()[0], TARGET, repeat_index=i, output_file="/r", tag="t") for i in range(3)
    ]
    assert [c.argv[c.argv.index("--seed") + 1] for c in commands] == ["42", "43", "44"]


def test_a_file_of_prompts_keeps_its_layout() -> None:
    dataset = NodeFile(path="/data/chats.jsonl", layout=FileLayout.OPENAI, output_tokens=64)
    workload = Workload(dataset=dataset, load=OpenLoad(rate_rps=2.0))
    command = run_command(workload, workload.points()[0], TARGET, repeat_index=0, output_file="/r", tag="t")
    assert command.argv[command.argv.index("--dataset-name") + 1] == "openai"
    assert command.argv[command.argv.index("--request-rate") + 1] == "2.0"


def test_a_result_is_completed_with_what_its_file_does_not_tell() -> None:
    content = (FILES / "sglang-0.5.23.jsonl").read_bytes()
    result = read_own_result(content, WORKLOAD, context(repeat=2)).result
    assert (result.status, result.is_imported, result.repeat_index) == (ResultStatus.OK, False, 2)
    assert (result.workload.seed, result.workload.num_prompts, result.workload.dataset) == (44, 12, "random-ids")
    assert result.workload.is_cache_flushed
    assert (result.load.mode, result.load.max_concurrency) == (LoadMode.CLOSED, 3)
    assert result.rates.output_throughput_tps is not None
    assert result.rates.output_throughput_tps_per_gpu == pytest.approx(result.rates.output_throughput_tps / 2)
    assert result.slo is not None
    assert result.slo.ttft_ms == 2000
    assert result.client.raw_sha256 is not None


def test_repeats_of_one_point_share_their_key() -> None:
    content = (FILES / "sglang-0.5.23.jsonl").read_bytes()
    keys = {comparability_key(read_own_result(content, WORKLOAD, context(repeat=i)).result) for i in range(3)}
    assert len(keys) == 1


def test_failures_degrade_and_are_counted() -> None:
    content = (FILES / "sglang-0.5.23-failures.jsonl").read_bytes()
    result = read_own_result(content, WORKLOAD, context()).result
    assert result.status is ResultStatus.DEGRADED
    assert result.totals.requests_failed == 3


def test_without_details_what_is_missing_counts_as_failed() -> None:
    result = read_own_result(sglang_line(errors=None, completed=11), WORKLOAD, context()).result
    assert (result.totals.requests_sent, result.totals.requests_failed) == (12, 1)
    assert result.status is ResultStatus.DEGRADED


def test_a_short_file_of_prompts_is_said_and_is_no_failure() -> None:
    longer = WORKLOAD.model_copy(update={"num_prompts": 50})
    mapped = read_own_result(sglang_line(), longer, context(longer))
    assert mapped.result.status is ResultStatus.OK
    assert mapped.result.workload.num_prompts == 12
    assert any("gave 12 of the 50" in note for note in mapped.notes)


@pytest.mark.parametrize(("flush", "scope"), [(True, AcceptScope.RUN), (False, AcceptScope.SERVER_LIFETIME)])
def test_a_flush_makes_the_accept_length_that_of_the_run(*, flush: bool, scope: AcceptScope) -> None:
    workload = WORKLOAD.model_copy(update={"flush_cache": flush})
    result = read_own_result(sglang_line(accept_length=2.5), workload, context(workload)).result
    assert result.spec_decode is not None
    assert (result.spec_decode.accept_length, result.spec_decode.scope) == (2.5, scope)


def test_two_lines_mean_that_something_else_wrote() -> None:
    with pytest.raises(ResultFileRejected) as caught:
        read_own_result(sglang_line() + b"\n" + sglang_line(), WORKLOAD, context())
    assert caught.value.reason is RejectionReason.SEVERAL_RESULTS


def test_another_object_is_no_result_of_the_client() -> None:
    with pytest.raises(ResultFileRejected) as caught:
        read_own_result(b'{"a": 1}', WORKLOAD, context())
    assert caught.value.reason is RejectionReason.NO_RESULT


def test_what_is_known_of_the_server_is_filled_up_by_what_its_client_was_told() -> None:
    content = (FILES / "sglang-0.5.23.jsonl").read_bytes()
    server = read_own_result(content, WORKLOAD, context()).result.server
    assert (server.tp, server.dp, server.kv_cache_dtype, server.model_path) == (1, 1, "auto", "/models/tiny")
    assert (server.model_id, server.server_instance_id) == ("m", "lnc_1")
