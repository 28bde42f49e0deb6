"""Workloads: what they refuse, and what they come to."""

import pytest
from pydantic import ValidationError

from service.benchmarks.presets import PRESETS, SLO_TEMPLATES
from service.benchmarks.workload import (
    ClosedLoad,
    GoodputLimits,
    OpenLoad,
    RandomIds,
    SeedPolicy,
    SharedPrefix,
    Workload,
)

IDS = {"kind": "random_ids", "input_tokens": 128, "output_tokens": 32}
CLOSED = {"kind": "closed", "concurrency": 4}


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        ({"dataset": IDS, "load": {"kind": "closed", "concurrency": 0}}, "greater than or equal to 1"),
        ({"dataset": IDS, "load": {"kind": "closed", "concurrency": []}}, "1 to 20 points"),
        ({"dataset": IDS, "load": {"kind": "closed", "concurrency": list(range(1, 30))}}, "1 to 20 points"),
        ({"dataset": IDS, "load": {"kind": "closed", "concurrency": [4, 4]}}, "names no point twice"),
        ({"dataset": IDS, "load": {"kind": "open", "rate_rps": float("inf")}}, "finite number"),
        ({"dataset": IDS, "load": {"kind": "open", "rate_rps": 0}}, "greater than 0"),
        ({"dataset": IDS, "load": {"kind": "open", "rate_rps": 1, "concurrency": 4}}, "Extra inputs"),
        ({"dataset": {**IDS, "output_tokens": 0}, "load": CLOSED}, "greater than or equal to 1"),
        ({"dataset": {"kind": "file", "path": "prompts.jsonl", "layout": "custom"}, "load": CLOSED}, "should match"),
        ({"dataset": {"kind": "file", "path": "/p", "layout": "mooncake"}, "load": CLOSED}, "'custom', 'openai'"),
        ({"dataset": IDS, "load": CLOSED, "goodput": {}}, "at least one of ttft_ms"),
        ({"dataset": IDS, "load": CLOSED, "goodput": {"ttft_ms": float("nan")}}, "finite number"),
        ({"dataset": IDS, "load": CLOSED, "seed_policy": "fixed", "flush_cache": False}, "hit the prefix cache"),
        (
            {
                "dataset": {
                    "kind": "shared_prefix",
                    "groups": 4,
                    "prompts_per_group": 8,
                    "prefix_tokens": 64,
                    "question_tokens": 8,
                    "output_tokens": 8,
                },
                "load": CLOSED,
                "num_prompts": 50,
            },
            r"\(32\) for a shared prefix",
        ),
    ],
)
def test_a_wrong_definition_is_refused_with_its_reason(definition: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Workload.model_validate(definition)


def test_a_sweep_has_a_point_for_each_value_with_its_own_size() -> None:
    workload = Workload(
        dataset=RandomIds(input_tokens=8, output_tokens=8), load=ClosedLoad(concurrency=[1, 16, 400, 20_000 // 2])
    )
    assert [(p.index, p.concurrency, p.num_prompts, p.warmup_requests) for p in workload.points()] == [
        (0, 1, 50, 2),
        (1, 16, 160, 32),
        (2, 400, 4000, 512),
        (3, 10_000, 100_000, 512),
    ]


def test_an_open_loop_takes_what_arrives_in_a_minute() -> None:
    workload = Workload(dataset=RandomIds(input_tokens=8, output_tokens=8), load=OpenLoad(rate_rps=[0.5, 10]))
    assert [(p.rate_rps, p.concurrency, p.num_prompts, p.label) for p in workload.points()] == [
        (0.5, None, 50, "0.5 req/s"),
        (10.0, None, 600, "10 req/s"),
    ]


def test_a_shared_prefix_gives_its_own_number_of_prompts() -> None:
    dataset = SharedPrefix(groups=3, prompts_per_group=7, prefix_tokens=64, question_tokens=8, output_tokens=8)
    (point,) = Workload(dataset=dataset, load=ClosedLoad(concurrency=4)).points()
    assert point.num_prompts == 21


def test_what_is_given_wins_over_the_defaults() -> None:
    workload = Workload(
        dataset=RandomIds(input_tokens=8, output_tokens=8),
        load=ClosedLoad(concurrency=64),
        num_prompts=5,
        warmup_requests=0,
    )
    (point,) = workload.points()
    assert (point.num_prompts, point.warmup_requests) == (5, 0)


def test_each_repeat_of_each_point_has_its_own_seed_that_every_run_shares() -> None:
    workload = Workload(dataset=RandomIds(input_tokens=8, output_tokens=8), load=ClosedLoad(concurrency=[1, 2]))
    seeds = [workload.seed_for(repeat, point_index=point) for point in (0, 1) for repeat in range(100)]
    assert len(set(seeds)) == 200
    assert seeds == [workload.seed_for(repeat, point_index=point) for point in (0, 1) for repeat in range(100)]


def test_a_fixed_seed_is_the_same_for_all() -> None:
    workload = Workload(
        dataset=RandomIds(input_tokens=8, output_tokens=8),
        load=ClosedLoad(concurrency=1),
        seed=7,
        seed_policy=SeedPolicy.FIXED,
    )
    assert {workload.seed_for(repeat) for repeat in range(5)} == {7}


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_survives_json(name: str) -> None:
    preset = PRESETS[name]
    assert Workload.model_validate_json(preset.model_dump_json()) == preset
    assert preset.points()


def test_limits_go_by_the_clients_names() -> None:
    assert SLO_TEMPLATES["llama2-70b-interactive"].by_client_name() == {"ttft": 450.0, "tpot": 40.0}
    assert GoodputLimits(e2e_ms=9).by_client_name() == {"e2el": 9.0}
