"""What is recorded: each case's arguments, what is done to the engine, and the story that its log tells."""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import Signals
from threading import Thread

from tests.sglang.logs.trial import REFUSED, Trial

API_KEY = "key-of-the-recording"
LOADING = "Load weight begin"
BINDING = "Application startup complete."
FROZEN_S = 45.0
"""How long a scheduler stays stopped: long enough for two health answers of 20 s."""


@dataclass(frozen=True, slots=True)
class Case:
    """One log to record; `arguments` come after the common ones and win."""

    name: str
    note: str
    play: Callable[[Trial], None]
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    spoil: Callable[[Path], None] | None = None
    """Breaks a copy of the model before the start."""
    has_api_key: bool = False
    neighbour: str | None = None
    """Who has the port already: `engine` or `stranger`."""
    version_arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Arguments of one version in place of `arguments`."""


def ends(trial: Trial) -> None:
    """Wait for the engine to end by itself."""
    trial.await_exit()


def serves(trial: Trial) -> None:
    """Follow the engine to its first 200, let it complete a prompt and leave it running."""
    trial.await_ready()
    body = {"text": "the quick brown fox", "sampling_params": {"max_new_tokens": 8, "temperature": 0}}
    status, answer = trial.post("/generate", body)
    trial.say(f"POST /generate: {status}, {json.loads(answer)['meta_info']['completion_tokens']} tokens")
    assert status == "200"
    status, answer = trial.post("/v1/completions", {"model": "tiny", "prompt": "hello", "max_tokens": 4})
    trial.say(f"POST /v1/completions: {status}, finish_reason {json.loads(answer)['choices'][0]['finish_reason']}")
    assert status == "200"
    answers = {path: trial.get(path) for path in ("/model_info", "/server_info", "/v1/models", "/metrics", "/ready")}
    trial.say(f"GET: {answers}")
    trial.tell_members()


def serves_with_key(trial: Trial) -> None:
    """Serve, and show that the key came from the file: refused without it, absent from every command line."""
    serves(trial)
    trial.say(f"GET /v1/models without the key: {trial.get('/v1/models', has_key=False)}, with it: 200")
    shown = [member.pid for member in trial.members() if API_KEY in member.title]
    trial.say(f"processes that show the key on their command line: {shown}")
    trial.say(f"the log shows the key: {API_KEY.encode() in trial.log.read_bytes()}")


def terminated(trial: Trial) -> None:
    """Serve, then end by SIGTERM with no request running."""
    serves(trial)
    trial.send_to_main(Signals.SIGTERM)
    trial.await_exit()
    trial.await_gone()
    trial.tell_shared_memory()


def scheduler_killed(trial: Trial) -> None:
    """Serve, then lose the scheduler."""
    serves(trial)
    trial.send(Signals.SIGKILL, "sglang::scheduler")
    trial.await_exit()
    trial.await_gone()
    trial.tell_shared_memory()


def main_killed(trial: Trial) -> None:
    """Serve, then lose the main process."""
    serves(trial)
    trial.send_to_main(Signals.SIGKILL)
    trial.await_exit()
    trial.await_gone()
    trial.tell_shared_memory()


def scheduler_frozen(trial: Trial) -> None:
    """Serve, stop the scheduler for `FROZEN_S`, let it go on, then end by SIGTERM."""
    serves(trial)
    trial.send(Signals.SIGSTOP, "sglang::scheduler")
    frozen = time.monotonic()
    trial.await_health("503")
    for path in ("/model_info", "/v1/models", "/metrics", "/server_info"):
        asked = time.monotonic()
        trial.say(f"GET {path} while frozen: {trial.get(path, timeout_s=5)} in {time.monotonic() - asked:.2f} s")
    while time.monotonic() < frozen + FROZEN_S:
        asked = time.monotonic()
        trial.say(f"/health: {trial.get('/health')} in {time.monotonic() - asked:.1f} s")
    trial.send(Signals.SIGCONT, "sglang::scheduler")
    trial.await_health("200")
    trial.send_to_main(Signals.SIGTERM)
    trial.await_exit()
    trial.await_gone()


def signalled_at(line: str, number: Signals, title: str | None, trial: Trial) -> None:
    """Signal the main process, or the member with this title, as soon as the log holds a line.

    Nothing is looked at in between: the tiny model is loaded within 0.1 s.
    """
    trial.await_log(line)
    if title is None:
        trial.send_to_main(number)
    else:
        trial.send(number, title)
    trial.await_exit()
    trial.await_gone()


def stranger_on(port: int) -> ThreadingHTTPServer:
    """Return a running web server that is no engine: it answers 404 to everything."""

    class Nothing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Keep the terminal quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Nothing)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def refused(trial: Trial) -> None:
    """Wait for the end of an engine that never listens."""
    trial.await_exit()
    trial.say(f"/health at the end: {trial.get('/health')}")
    assert trial.get("/health") == REFUSED


def refused_or_served(trial: Trial) -> None:
    """Wait for whichever this version does."""
    trial.await_end_or_ready()


def _without_weights(model: Path) -> None:
    (model / "model.safetensors").unlink()


def _with_cut_weights(model: Path) -> None:
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])


def _with_pointer(model: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1048576\n"
    (model / "model.safetensors").write_text(pointer)


def _with_config(model: Path, **changes: object) -> None:
    config = model / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **changes}))


def _without_tokenizer(model: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (model / name).unlink()


def spoiled_copy(model: Path, target: Path, spoil: Callable[[Path], None]) -> Path:
    """Return a copy of the model that `spoil` has broken."""
    shutil.copytree(model, target)
    spoil(target)
    return target


_TWO_RANKS = ("--tp-size", "2")
_TWO_CPUS = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}
_TWO_OF_THREE = (
    *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "MODEL"),
    *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "16"),
)
_QUIET = ("--log-level", "warning")

CASES = (
    Case("ready", "Healthy start, two completions, still serving at the end of the log", serves),
    Case("ready_tp2", "Healthy start of two ranks, still serving", serves, _TWO_RANKS, _TWO_CPUS),
    Case("ready_api_key_file", "Healthy start, the API key in --config", serves_with_key, has_api_key=True),
    Case("ready_quiet", "Healthy start at log level warning: no phase lines", serves, _QUIET),
    Case("sigterm_idle", "SIGTERM while idle: a clean stop", terminated),
    Case("scheduler_killed", "SIGKILL to the scheduler while serving", scheduler_killed),
    Case("scheduler_killed_tp2", "SIGKILL to rank 0 of two while serving", scheduler_killed, _TWO_RANKS, _TWO_CPUS),
    Case("parent_killed", "SIGKILL to the main process while serving", main_killed),
    Case("scheduler_stopped", "SIGSTOP to the scheduler for 45 s, SIGCONT, recovery, SIGTERM", scheduler_frozen),
    Case(
        "sigterm_loading",
        "SIGTERM to the main process while weights load",
        partial(signalled_at, LOADING, Signals.SIGTERM, None),
    ),
    Case(
        "sigterm_binding",
        "SIGTERM when the HTTP server comes up: its warmup then asks its own closed port for two minutes",
        partial(signalled_at, BINDING, Signals.SIGTERM, None),
    ),
    Case(
        "scheduler_killed_loading",
        "SIGKILL to the scheduler while it loads",
        partial(signalled_at, LOADING, Signals.SIGKILL, "sglang::scheduler"),
    ),
    Case("port_taken", "Another engine has the port; the ready line is about that one", ends, neighbour="engine"),
    Case("port_taken_by_stranger", "A web server that is no engine has the port", ends, neighbour="stranger"),
    Case("wrong_flag", "A flag that no version knows", refused, ("--num-speculative-tokens", "5")),
    Case(
        "ambiguous_flag",
        "An abbreviation or former name that fits several flags",
        refused,
        ("--pp", "1"),
        version_arguments={"0.5.23": ("--cuda-graph-max-bs", "8")},
    ),
    Case("invalid_choice", "A value outside the flag's choices", refused, ("--attention-backend", "flashinfr")),
    Case("missing_model", "The model path does not exist", refused, ("--model-path", "/models/absent")),
    Case("speculative_two_of_three", "EAGLE3 with two of its three numbers", refused, _TWO_OF_THREE),
    Case("context_too_long", "A context longer than the model's", refused, ("--context-length", "8192")),
    Case("weights_missing", "The model folder has no weight file", refused, spoil=_without_weights),
    Case("weights_cut", "The weight file ends in the middle", refused, spoil=_with_cut_weights),
    Case("weights_pointer", "The weight file is a Git LFS pointer", refused, spoil=_with_pointer),
    Case(
        "unknown_architecture",
        "An architecture that this version does not have",
        refused,
        spoil=partial(_with_config, architectures=["NoSuchForCausalLM"]),
    ),
    Case(
        "unknown_model_type",
        "A model type that transformers does not know",
        refused,
        spoil=partial(_with_config, model_type="nosuch"),
    ),
    Case("weights_shape", "Weights of another shape", refused, spoil=partial(_with_config, hidden_size=256)),
    Case(
        "tokenizer_missing",
        "The model folder has no tokenizer: newer versions refuse, 0.5.10 serves all the same",
        refused_or_served,
        spoil=_without_tokenizer,
    ),
    Case("kv_pool_empty", "No memory left for the KV pool", refused, ("--mem-fraction-static", "0.0001")),
)
