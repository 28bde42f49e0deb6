"""Run by an engine's own Python: builds its real draft classes on a CPU and loads tensors into them, one at a time.

Standard input is a list of cases {class, model_type, config, tensors: [[name, shape], ...]}, or with `checkpoint` (a
directory, read by the engine's own reader) in the place of `tensors`. Standard output is one line of JSON after MARK:
for each case the parameters with their shapes, and what came of each tensor, or of the checkpoint as a whole.
"""

import importlib
import inspect
import json
import os
import re
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

MARK = "PROBED "
MODULES = {
    "LlamaForCausalLMEagle3": "sglang.srt.models.llama_eagle3",
    "Eagle3DeepseekV2ForCausalLM": "sglang.srt.models.kimi_k25_eagle3",
    "LlamaForCausalLMEagle": "sglang.srt.models.llama_eagle",
    "Qwen2ForCausalLMEagle": "sglang.srt.models.qwen2_eagle",
}
UNTOUCHED = 7.0
CPU_SWITCHES = ("sglang.srt.layers.linear", "sglang.srt.layers.vocab_parallel_embedding", "sglang.srt.layers.parameter")
"""Modules that load otherwise on a CPU, where what is too small is filled with zeros. Asked is what a GPU gets."""
_UNSET = re.compile(r"parallel name '(\w+)' has not")


def prepare(model_path: str) -> None:
    """Make this process a group of one, as far as the constructors of the release ask for it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = importlib.import_module("sglang.srt.server_args")
    given = arguments.ServerArgs(
        model_path=model_path, device="cpu", attention_backend="torch_native", disable_overlap_schedule=True
    )
    arguments.set_global_server_args_for_scheduler(given)
    distributed = importlib.import_module("sglang.srt.distributed")
    where = f"tcp://127.0.0.1:{port}"
    distributed.init_distributed_environment(
        world_size=1, rank=0, local_rank=0, backend="gloo", distributed_init_method=where
    )
    start = distributed.initialize_model_parallel
    sizes = {"tensor_model_parallel_size": 1}
    start(**{name: size for name, size in sizes.items() if name in inspect.signature(start).parameters})
    attention = importlib.import_module("sglang.srt.layers.dp_attention")
    configs = importlib.import_module("sglang.srt.configs.model_config")
    if len(inspect.signature(attention.initialize_dp_attention).parameters) > 1:
        attention.initialize_dp_attention(given, configs.ModelConfig.from_server_args(given))


def build(case: dict[str, Any]) -> Any:
    """Return the class of a case, built; a place in a group that the release asks for is the first."""
    transformers = importlib.import_module("transformers")
    kind = {"deepseek_v3": "DeepseekV3Config", "qwen2": "Qwen2Config"}.get(case["model_type"], "LlamaConfig")
    config = getattr(transformers, kind)(**case["config"])
    make = getattr(importlib.import_module(MODULES[case["class"]]), case["class"])
    for _ in range(20):
        try:
            return make(config)
        except RuntimeError as error:
            unset = _UNSET.search(str(error))
            if unset is None:
                raise
            context = importlib.import_module("sglang.srt.runtime_context")
            context.get_parallel().override_permanently(**{unset[1]: 0})
    raise RuntimeError("the class asks for ever more")


def load(model: Any, weights: Any) -> dict[str, Any]:
    """Load weights, and say which parameters changed, which hold zeros, and which kept old values somewhere."""
    torch = importlib.import_module("torch")
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for parameter in parameters.values():
            parameter.fill_(UNTOUCHED)
    model.hot_token_id = None
    said = None
    try:
        model.load_weights(weights)
    except (AssertionError, RuntimeError, ValueError, KeyError) as error:
        said = type(error).__name__
    changed = [name for name, parameter in parameters.items() if bool((parameter != UNTOUCHED).any())]
    zeros = [name for name in changed if bool((parameters[name] == 0).any())]
    kept = [name for name, parameter in parameters.items() if bool((parameter == UNTOUCHED).any())]
    has_map = getattr(model, "hot_token_id", None) is not None
    return {"error": said, "changed": changed, "zeros": zeros, "kept": kept, "token_map": has_map}


def read(directory: str) -> Any:
    """Return what the engine's own reader offers to a model from a directory."""
    reader = importlib.import_module("sglang.srt.model_loader.weight_utils")
    found = sorted(str(path) for path in Path(directory).glob("*.safetensors"))
    files = reader.filter_duplicate_safetensors_files(found, directory, "model.safetensors.index.json")
    return reader.safetensors_weights_iterator(files)


def probe(case: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of one case and what came of each of its tensors, or of its checkpoint."""
    torch = importlib.import_module("torch")
    try:
        model = build(case)
    except Exception:  # noqa: BLE001  # what a release cannot build on a CPU is told, not hidden
        return {"cannot": traceback.format_exc()}
    for module in map(importlib.import_module, CPU_SWITCHES):
        module.__dict__.update(dict.fromkeys({"_is_cpu"} & set(module.__dict__), False))
    shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    if "checkpoint" in case:
        return {"parameters": shapes, "load": load(model, read(case["checkpoint"]))}
    loads = [load(model, [(name, torch.ones(shape))]) for name, shape in case["tensors"]]
    return {"parameters": shapes, "loads": loads}


def main() -> None:
    """Answer the cases of standard input."""
    cases = json.load(sys.stdin)
    os.environ.update(SGLANG_USE_CPU_ENGINE="1", CUDA_VISIBLE_DEVICES="")
    prepare(sys.argv[1])
    answers = [probe(case) for case in cases]
    print(MARK + json.dumps(answers), flush=True)  # noqa: T201  # it is the answer
    os._exit(0)


if __name__ == "__main__":
    main()
