"""The numbers in /metrics: by name, whatever the version has besides, one replica or many."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.sglang.metrics import EngineCounters, parse_metrics

LABELS = 'engine_type="unified",model_name="/models/a {b}",moe_ep_rank="0",pp_rank="0",tp_rank="0"'
NEWEST = f"""\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{{{LABELS}}} 3.0
sglang:num_queue_reqs{{{LABELS}}} 2.0
sglang:num_used_tokens{{{LABELS}}} 1034.0
sglang:token_usage{{{LABELS}}} 0.05
sglang:gen_throughput{{{LABELS}}} 22.9
sglang:spec_accept_length{{{LABELS}}} 2.75
sglang:spec_accept_rate{{{LABELS}}} 0.6
sglang:realtime_tokens_total{{engine_type="unified",mode="prefill_compute",model_name="m",tp_rank="0"}} 30.0
sglang:realtime_tokens_total{{engine_type="unified",mode="decode",model_name="m",tp_rank="0"}} 1055.0
sglang:prompt_tokens_total{{engine_type="unified",is_streaming="false",model_name="m"}} 28.0
sglang:prompt_tokens_total{{engine_type="unified",is_streaming="true",model_name="m"}} 2.0
sglang:generation_tokens_total{{engine_type="unified",is_streaming="false",model_name="m"}} 8.0
sglang:generation_tokens_histogram_sum{{model_name="m"}} 999.0
sglang:num_aborted_requests_total{{model_name="m"}} 7.0
sglang:dp_cooperation_realtime_tokens_total{{model_name="m"}} 777.0
"""
OLD = """\
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="m"} 1.5e+06
sglang:generation_tokens_total{model_name="m"} 250.0
sglang:num_running_reqs{model_name="m"} 1.0
sglang:num_queue_reqs{model_name="m"} 0.0
sglang:token_usage{model_name="m"} 0.28
sglang:gen_throughput{model_name="m"} 86.5
sglang:cache_hit_rate{model_name="m"} 0.007
"""


def test_the_newest_version() -> None:
    assert parse_metrics(NEWEST) == EngineCounters(
        prompt_tokens=30,
        generation_tokens=8,
        work_tokens=1085,
        running_requests=3,
        queued_requests=2,
        used_tokens=1034,
        token_usage=0.05,
        generation_rate=22.9,
        accept_length=2.75,
        accept_rate=0.6,
        decode_tokens=1055,
    )


def test_an_old_version_lacks_some_and_says_none() -> None:
    found = parse_metrics(OLD)
    assert (found.prompt_tokens, found.generation_tokens, found.running_requests) == (1_500_000, 250, 1)
    assert (found.work_tokens, found.used_tokens, found.accept_length, found.verify_calls) == (None, None, None, None)
    assert found.tokens == 1_500_250


def test_ranks_of_a_replica_tell_the_same_story_and_replicas_add_up() -> None:
    """Attention data parallelism: the first rank of the second replica is rank 4, and every rank may export."""
    text = "".join(
        f'sglang:num_running_reqs{{dp_rank="{rank // 4}",pp_rank="0",tp_rank="{rank}"}} {5 + rank // 4}\n'
        f'sglang:token_usage{{dp_rank="{rank // 4}",model_name="m",tp_rank="{rank}"}} 0.{1 + rank // 4}\n'
        for rank in range(8)
    )
    found = parse_metrics(text)
    assert (found.running_requests, found.token_usage) == (11, 0.2)


@pytest.mark.parametrize(
    "line",
    [
        "sglang:num_running_reqs",
        'sglang:num_running_reqs{a="b"} ',
        "sglang:num_running_reqs{} many",
        "sglang:num_running_reqs{} NaN",
        "sglang:num_running_reqs{} +Inf",
        "vllm:num_running_reqs{} 3",
        "sglang:num_running_reqs_offline_batch{} 3",
        "# HELP sglang:num_running_reqs 3",
        "",
    ],
)
def test_what_is_no_number_of_ours_is_left_out(line: str) -> None:
    assert parse_metrics(line + "\n") == EngineCounters()
    assert EngineCounters().tokens is None


def test_a_sample_needs_neither_labels_nor_a_last_newline() -> None:
    assert parse_metrics("sglang:num_queue_reqs 4").queued_requests == 4
    assert parse_metrics('sglang:num_queue_reqs{a="x} 9"} 4 1764381600000').queued_requests == 4


@given(st.text(max_size=400))
def test_no_text_is_an_error(text: str) -> None:
    parse_metrics(text)
    parse_metrics(f"sglang:num_queue_reqs{{{text}}} 4\n")


@given(st.integers(0, len(NEWEST)))
def test_a_text_that_was_cut_gives_what_is_whole(length: int) -> None:
    whole, cut = parse_metrics(NEWEST), parse_metrics(NEWEST[:length])
    for field in fields(EngineCounters):
        found = getattr(cut, field.name)
        assert found is None or found <= getattr(whole, field.name)
