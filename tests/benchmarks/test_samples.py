"""The order of a run's steps, and what is made of the samples taken beside a client."""

import json
from datetime import UTC, datetime

import pytest

from service.benchmarks.comparison import interleaved
from service.benchmarks.run_order import run_order, turns_before
from service.benchmarks.samples import (
    KEPT_SAMPLES,
    energy_of,
    other_traffic,
    power_limit_w,
    read_samples,
    sample_documents,
)
from service.benchmarks.workload import ClosedLoad, RandomIds, Workload
from service.sglang.bench_client import ClientStage

START = 1_800_000_000.0


def line(second: float, stage: int, **said: object) -> bytes:
    return json.dumps({"at": START + second, "stage": stage, **said}).encode()


def gpu(second: float, stage: int, *rows: tuple[str, str, str]) -> bytes:
    return line(second, stage, gpus=[[uuid, util, power, "700.00", "1000"] for uuid, util, power in rows])


def workload(*levels: int) -> Workload:
    return Workload(dataset=RandomIds(input_tokens=8, output_tokens=8), load=ClosedLoad(concurrency=list(levels)))


def test_each_repeat_visits_every_point_there_and_back() -> None:
    steps = run_order(workload(1, 2, 4), 3)
    assert [(step.point.index, step.repeat_index) for step in steps] == [
        (0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (0, 1), (0, 2), (1, 2), (2, 2),
    ]  # fmt: skip
    assert [step.position for step in steps] == list(range(9))


def test_two_runs_take_turns_as_the_comparison_wants_it() -> None:
    done = {"A": 0, "B": 0}
    order = ""
    while len(order) < 12:
        (turn,) = [
            name
            for name, other in (("A", "B"), ("B", "A"))
            if done[name] < 6 and turns_before(is_first=name == "A", repeat_index=done[name]) <= done[other]
        ]
        done[turn] += 1
        order += turn
    assert order == interleaved(6)


def test_energy_is_of_the_measured_part_alone() -> None:
    lines = [
        gpu(0, 1, ("a", "1", "90"), ("b", "1", "90")),
        gpu(10, 2, ("a", "0", "100"), ("b", "0", "100")),
        gpu(12, 2, ("a", "80", "600"), ("b", "100", "500")),
        gpu(14, 2, ("a", "90", "700"), ("b", "90", "[N/A]")),
        gpu(19, 2, ("a", "2", "110"), ("b", "2", "110")),
        gpu(20, 3, ("a", "1", "90"), ("b", "1", "90")),
    ]
    samples = read_samples(b"\n".join(lines))
    energy = energy_of(samples, gpu_uuids=["a", "b"], duration_s=5.0, output_tokens=1000)
    assert energy is not None
    assert energy.mean_power_w == pytest.approx(650 + 500)
    assert energy.output_token_j == pytest.approx(1150 * 5 / 1000)
    assert energy.mean_utilization == pytest.approx(0.9)
    assert power_limit_w(samples) == 700


def test_power_that_one_gpu_does_not_tell_is_unknown() -> None:
    samples = read_samples(b"\n".join(gpu(s, 2, ("a", "50", "600"), ("b", "[N/A]", "[N/A]")) for s in range(5)))
    energy = energy_of(samples, gpu_uuids=["a", "b"], duration_s=4.0, output_tokens=10)
    assert energy is not None
    assert (energy.mean_power_w, energy.output_token_j, energy.mean_utilization) == (None, None, 0.5)


def test_without_a_gpu_there_is_no_energy() -> None:
    samples = read_samples(line(3, 2, metrics="sglang:num_running_reqs 4.0\n"))
    assert energy_of(samples, gpu_uuids=[], duration_s=4.0, output_tokens=10) is None
    assert power_limit_w(samples) is None


def test_counters_are_kept_as_they_were() -> None:
    text = (
        "sglang:num_running_reqs 4.0\nsglang:num_queue_reqs 2.0\nsglang:token_usage 0.25\nsglang:gen_throughput NaN\n"
    )
    (document,) = sample_documents(read_samples(line(3, 9, metrics=text)))
    assert document == {
        "at": "2027-01-15T08:00:03.000Z",
        "stage": ClientStage.REPORTING.value,
        "running_requests": 4.0,
        "queued_requests": 2.0,
        "token_usage": 0.25,
        "accept_length": None,
        "generation_rate": None,
    }
    assert datetime.fromisoformat(document["at"]) == datetime.fromtimestamp(START + 3, UTC)


def test_many_samples_are_thinned_out() -> None:
    lines = b"\n".join([*(gpu(s, 2, ("a", "1", "1")) for s in range(1000)), line(0.5, 2, metrics="")])
    documents = sample_documents(read_samples(lines))
    assert sum("gpus" in document for document in documents) <= KEPT_SAMPLES
    assert sum("running_requests" in document for document in documents) == 1


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'{"at": 1e999, "stage": 1, "gpus": []}', b'{"at": "x", "stage": 1, "metrics": ""}',
     b'{"at": 1, "stage": 1, "gpus": [["a"]]}', b'{"at": 1, "stage": 1}', b"\xff\xfe",
     b'{"at": NaN, "stage": 0, "gpus": []}'],
)  # fmt: skip
def test_a_line_that_is_no_sample_is_left_out(text: bytes) -> None:
    good = line(1, 0, metrics="")
    assert len(read_samples(text + b"\n" + good)) == 1


def test_requests_of_others_before_the_first_of_the_client_are_told() -> None:
    busy = "sglang:num_running_reqs 3.0\nsglang:num_queue_reqs 1.0\n"
    quiet = "sglang:num_running_reqs 0.0\nsglang:num_queue_reqs 0.0\n"
    assert other_traffic(read_samples(line(0, 0, metrics=quiet) + b"\n" + line(9, 2, metrics=busy))) is None
    assert other_traffic(read_samples(line(0, 0, metrics=quiet) + b"\n" + line(1, 0, metrics=busy))) == 4
    assert other_traffic(()) is None
