"""Every path the stand-in answers, its errors and streams, and what the metrics say afterwards."""

import http.client
import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from service.simulator.specs import ENGINE_VERSIONS
from tests.simulator.engines import EngineHome, RunningEngine, eventually

OLD, MIDDLE, NEW = ENGINE_VERSIONS
KEY = "sk-secret-1"


@pytest.fixture
def engine(home: EngineHome) -> RunningEngine:
    started = home.start("--enable-metrics", "--decode-log-interval", "5")
    started.wait_until_ready()
    return started


def events(body: bytes) -> list[str]:
    return [line.removeprefix("data: ") for line in body.decode().splitlines() if line]


def test_descriptions(engine: RunningEngine, home: EngineHome) -> None:
    info = engine.ask("/model_info").json()
    assert info["model_path"] == home.model("tiny-llama")
    assert info["architectures"] == ["LlamaForCausalLM"]
    models = engine.ask("/v1/models").json()
    assert models["data"][0]["max_model_len"] == 2048
    assert engine.ask("/").json() == "SGLang is running"
    server = engine.ask("/server_info").json()
    assert server["version"] == NEW
    assert server["port"] == engine.port
    assert server["max_total_num_tokens"] > 0
    assert server["internal_states"][0]["memory_usage"]["token_capacity"] == server["max_total_num_tokens"]
    assert "avg_spec_accept_length" not in server["internal_states"][0]


@pytest.mark.parametrize("path", ["/health", "/health_generate", "/ready", "/ping"])
def test_signs_of_life_have_no_body(engine: RunningEngine, path: str) -> None:
    answer = engine.ask(path)
    assert (answer.status, answer.body) == (200, b"")


def test_unknown_paths_and_methods(engine: RunningEngine) -> None:
    assert engine.ask("/liveness").status == 404
    assert engine.ask("/get_load").status == 404
    assert engine.ask("/generate", method="GET").status == 405


def test_paths_of_older_versions(home: EngineHome) -> None:
    engine = home.start(version=OLD)
    engine.wait_until_ready()
    assert engine.ask("/ready").status == 404
    assert engine.ask("/get_load").json()[0]["num_reqs"] == 0
    assert engine.ask("/get_server_info").json()["version"] == OLD
    assert "Endpoint '/get_server_info' is deprecated" in engine.log
    assert engine.ask("/metrics").status == 404, "metrics are off unless asked for"


def test_generate(engine: RunningEngine) -> None:
    answer = engine.ask("/generate", {"text": "hello there", "sampling_params": {"max_new_tokens": 12}}).json()
    assert answer["meta_info"]["completion_tokens"] == 12
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 12}
    assert answer["meta_info"]["prompt_tokens"] == 2
    assert len(answer["text"].split()) == 12
    assert "spec_verify_ct" not in answer["meta_info"]
    engine.wait_for("Decode batch, #running-req: 1")


def test_generate_stream_repeats_the_text_so_far(engine: RunningEngine) -> None:
    body = {"text": "hello", "stream": True, "sampling_params": {"max_new_tokens": 4}}
    answer = engine.ask("/generate", body)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    *steps, end = events(answer.body)
    assert end == "[DONE]"
    texts = [json.loads(step)["text"] for step in steps]
    assert len(texts) == 4
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))


def test_completions(engine: RunningEngine) -> None:
    answer = engine.ask("/v1/completions", {"model": "x", "prompt": "hello", "max_tokens": 3}).json()
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + 3


def test_chat(engine: RunningEngine) -> None:
    body = {"model": "x", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
    answer = engine.ask("/v1/chat/completions", body).json()
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert len(answer["choices"][0]["message"]["content"].split()) == 3
    stream = engine.ask("/v1/chat/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
    *chunks, end = events(stream.body)
    assert end == "[DONE]"
    first, *middle, last = [json.loads(chunk) for chunk in chunks]
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert middle[-1]["choices"][0]["finish_reason"] == "length"
    assert last["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        ("/generate", {"bad": 1}, "Either text, input_ids or input_embeds"),
        ("/generate", b"{bad", "json_invalid"),
        ("/v1/completions", {"model": "x"}, "Field required"),
        ("/v1/chat/completions", b"[]", "Input should be an object"),
    ],
)
def test_bad_requests(engine: RunningEngine, path: str, body: object, word: str) -> None:
    answer = engine.ask(path, body)
    assert answer.status == 400
    assert word in answer.body.decode()


def test_connection_is_kept_for_the_next_request(engine: RunningEngine) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", engine.port)
    for _ in range(3):
        connection.request("GET", "/model_info")
        assert connection.getresponse().read().startswith(b"{")
        assert connection.sock is not None
    connection.close()


def test_flush_and_abort(engine: RunningEngine) -> None:
    assert engine.ask("/flush_cache", method="POST").status == 200
    assert "Cache flushed successfully!" in engine.log
    answers: list[dict[str, object]] = []
    body = {"text": "long", "sampling_params": {"max_new_tokens": 100_000}}
    waiting = threading.Thread(target=lambda: answers.append(engine.ask("/generate", body).json()))
    waiting.start()
    eventually(lambda: engine.metric("num_running_reqs") == 1, "the request runs")
    assert engine.ask("/flush_cache", method="POST").status == 400
    assert engine.ask("/abort_request", {"abort_all": True}).status == 200
    waiting.join()
    info = answers[0]["meta_info"]
    assert isinstance(info, dict)
    assert info["finish_reason"]["type"] == "abort"


def test_metrics_count_tokens_and_idle_again(engine: RunningEngine) -> None:
    before = engine.metric("generation_tokens_total")
    engine.ask("/generate", {"text": "hello", "sampling_params": {"max_new_tokens": 20}})
    assert engine.metric("generation_tokens_total") == before + 20
    assert engine.metric("gen_throughput") > 0
    eventually(lambda: engine.metric("num_running_reqs") == 0, "idle again")
    assert engine.metric("spec_accept_length") == 0.0
    text = engine.ask("/metrics").body.decode()
    assert 'sglang:startup_time_seconds{engine_type="unified"' in text
    assert 'sglang:http_responses_total{endpoint="/generate",method="POST",status_code="200"}' in text


def test_metrics_names_of_an_older_version(home: EngineHome) -> None:
    engine = home.start("--enable-metrics", version=OLD)
    engine.wait_until_ready()
    text = engine.ask("/metrics").body.decode()
    assert "sglang:engine_startup_time{" in text
    assert "startup_time_seconds" not in text
    assert "spec_verify_calls_total" not in text


@pytest.mark.parametrize(("version", "rate"), [(OLD, 2.85 / 4), (NEW, 1.85 / 3)])
def test_acceptance_in_the_definition_of_the_version(
    home: EngineHome, version: str, rate: float, write_script: Callable[[str], Path]
) -> None:
    draft = home.model("kimi-like-eagle3")
    words = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", draft, "--enable-metrics")
    script = write_script('{"steps_per_s": 1000}')
    engine = home.start(*words, "--tp-size", "2", model="kimi-like", version=version, script=script)
    engine.wait_until_ready()
    of_warm_up = engine.metric("spec_verify_calls_total") if version == NEW else 0
    answer = engine.ask("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 200}}).json()
    assert answer["meta_info"]["spec_accept_length"] == pytest.approx(2.85, abs=0.1)
    assert engine.metric("spec_accept_length") == pytest.approx(2.85, abs=0.1)
    assert engine.metric("spec_accept_rate") == pytest.approx(rate, abs=0.05)
    assert "accept len: 2.8" in engine.log
    assert 'mode="decode"' in engine.ask("/metrics").body.decode()
    if version == NEW:
        assert engine.metric("spec_verify_calls_total") - of_warm_up == answer["meta_info"]["spec_verify_ct"]
        assert engine.metric("spec_num_draft_tokens") == 4
    eventually(lambda: engine.metric("num_running_reqs") == 0, "idle again")
    assert engine.ask("/flush_cache", method="POST").status == 200
    assert engine.metric("spec_accept_length") == pytest.approx(2.85, abs=0.1), "the gauge keeps what it said last"
    assert "avg_spec_accept_length" not in engine.ask("/server_info").json()["internal_states"][0]


def test_key_guards_all_but_health_and_metrics(home: EngineHome) -> None:
    engine = home.start("--enable-metrics", "--api-key", KEY)
    engine.wait_until_ready()
    for path in ("/health", "/metrics", "/ready"):
        assert engine.ask(path).status == 200
    for path in ("/model_info", "/v1/models", "/server_info", "/ping"):
        refused = engine.ask(path)
        assert (refused.status, refused.body) == (401, b'{"error":"Unauthorized"}')
        assert engine.ask(path, key="wrong").status == 401
        assert engine.ask(path, key=KEY).status == 200
    assert f"'api_key': '{KEY}'" in engine.log, "the real engine writes its key into the log"
    assert engine.ask("/server_info", key=KEY).json()["api_key"] == KEY


@pytest.mark.parametrize("version", ENGINE_VERSIONS)
def test_key_from_a_config_file_stays_off_the_command_line(home: EngineHome, version: str) -> None:
    config = home.path / "config.yaml"
    config.write_text(f'# secrets\napi-key: "{KEY}"\ntp_size: 1\nenable-metrics: true\nskip-tokenizer-init: false\n')
    engine = home.start("--config", str(config), version=version)
    engine.wait_until_ready()
    assert engine.ask("/model_info").status == 401
    assert engine.ask("/model_info", key=KEY).status == 200
    assert engine.ask("/metrics").status == 200
    assert KEY.encode() not in Path(f"/proc/{engine.process.pid}/cmdline").read_bytes()
