"""What an engine says of a launch's arguments: its own Python parses and resolves them, with the GPUs hidden from it.

A probe (`argument_probe`, sent as text) runs in the launch's environment, in a process group and a folder of its own;
both are gone when the answer is given. Nothing is launched, nothing listens, nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from typing import Any, Dict, Optional, Tuple

from . import gpu
from .answering import Refused
from .bounded_run import run
from .gpu_facts import capability_of, write_nvidia_smi
from .hub_cache import snapshot_of
from .variables import encoded, engine_variables

PATIENCE_S = 45.0
"""An engine's imports take 5 to 12 s from a warm disk, and several times that from a cold one."""
HELP_PATIENCE_S = 20.0
STAMP_PATIENCE_S = 20.0
OUTPUT_KEPT = 4000
FALSE_WORDS = ("", "0", "false", "no", "off")
GPU_FOLDERS = ("/proc/driver/nvidia/gpus", "/sys/class/kfd/kfd/topology/nodes")
_BOOTSTRAP = """
import json, os, sys, types
request = json.load(open(sys.argv[1]))
package = types.ModuleType("vigil_probe")
package.__path__ = []
sys.modules["vigil_probe"] = package
for name, source in request["probe"]:
    module = types.ModuleType("vigil_probe." + name)
    module.__package__ = "vigil_probe"
    sys.modules[module.__name__] = module
    exec(compile(source, "<" + module.__name__ + ">", "exec"), module.__dict__)
probe = sys.modules["vigil_probe.argument_probe"]
probe.main(request, probe.answer_to(request["descriptor"]))
os._exit(0)
"""
"""Ends without the engine's exit handlers: the answer is given, and its group is killed."""
_STAMP = (
    "import importlib.metadata as m,importlib.util as u,json,os\n"
    "def stamp(path):\n"
    "    try: s=os.stat(path)\n"
    "    except OSError: return [path,None]\n"
    "    return [path,s.st_size,s.st_mtime_ns]\n"
    "try: version=m.version('sglang')\n"
    "except m.PackageNotFoundError: version=None\n"
    "spec=u.find_spec('sglang')\n"
    "places=list(spec.submodule_search_locations or []) if spec else []\n"
    "files=[os.path.join(p,'srt',n) for p in places for n in ('server_args.py','environ.py','arg_groups')]\n"
    "print('\\nVIGIL',json.dumps({'version':version,'files':[stamp(f) for f in files]}))"
)


def judge_arguments(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer with what the engine said: the parts of the probe's answer, merged, and how the probe ended.

    `fault` is set when the environment cannot be used at all. With `help` the probe found other names inside the engine
    than it knows, and its `--help` was read instead.
    """
    began = time.monotonic()
    fault = _fault(request["python"], request["environment"])
    if fault:
        return dict(fault, seconds=time.monotonic() - began)
    place = tempfile.mkdtemp(prefix="vigil-judging-")
    try:
        return dict(_judge(request, place), seconds=time.monotonic() - began)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def judgement_stamps(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer with what an earlier judgement depended on, without importing the engine; a program may be no Python."""
    fault = _fault(request["python"], request["environment"])
    if fault:
        return {"version": None, "engine": "", "login": "", "models": [], **fault}
    variables = engine_variables(request["python"], request["environment"])
    argv = [request["python"], "-c", _STAMP]
    ended = run(argv, variables=variables, work="/", patience_s=STAMP_PATIENCE_S, answer=None)
    marked = [line for line in ended.output.splitlines() if line.startswith("VIGIL ")]
    said = json.loads(marked[-1][len("VIGIL ") :]) if marked else {"version": None}
    return {
        "fault": None,
        "version": said["version"],
        "engine": _digest(said),
        "login": _digest(sorted((repr(name), repr(value)) for name, value in variables.items())),
        "models": [_model_stamp(model, request["environment"]) for model in request["models"]],
    }


def _fault(python: str, environment: Dict[str, str]) -> Optional[Dict[str, Any]]:
    """Return why there is no such Python, None when there is one that can be executed."""
    if "/" not in python:
        path = environment.get("PATH", os.environ.get("PATH"))
        if shutil.which(python, path=path) is None:
            return {"fault": "python_missing", "detail": "there is no %s on the path" % python}
    elif not os.path.exists(python):
        return {"fault": "python_missing", "detail": "there is no %s on this node" % python}
    elif not os.path.isfile(python) or not os.access(python, os.X_OK):
        return {"fault": "python_not_executable", "detail": "%s cannot be executed" % python}
    return None


def _judge(request: Dict[str, Any], place: str) -> Dict[str, Any]:
    for name in ("bin", "tmp", "work"):
        os.mkdir(os.path.join(place, name), 0o700)
    gpus = [dict(one, compute_capability=capability_of(one)) for one in request["gpus"]]
    write_nvidia_smi(os.path.join(place, "bin", "nvidia-smi"), gpus)
    variables, is_offline = _variables(request, place)
    answer = os.pipe()
    order = {
        "probe": request["probe"],
        "argv": request["argv"],
        "gpus": gpus,
        "descriptor": answer[1],
        "is_offline": is_offline,
        "has_gpus": _has_gpus(),
        "limit_s": int(PATIENCE_S) + 5,
    }
    path = os.path.join(place, "order.json")
    with open(path, "w", encoding="ascii") as file:
        json.dump(order, file)
    work, python = os.path.join(place, "work"), request["python"]
    try:
        ended = run(
            [python, "-c", _BOOTSTRAP, path], variables=variables, work=work, patience_s=PATIENCE_S, answer=answer
        )
    except Refused as refused:
        return {"fault": "python_not_executable", "detail": refused.detail}
    text = None
    if ended.parts.get("is_interface"):
        argv = [python, "-m", "sglang.launch_server", "--help"]
        helped = run(argv, variables=variables, work=work, patience_s=HELP_PATIENCE_S, answer=None)
        text = helped.output if helped.exit_code == 0 else None
    return {
        "fault": None,
        "parts": ended.parts,
        "output": ended.output[-OUTPUT_KEPT:],
        "exit": ended.exit_code,
        "help": text,
    }


def _variables(request: Dict[str, Any], place: str) -> Tuple[Dict[bytes, bytes], bool]:
    """Return the launch's environment without its GPUs, and whether only we forbade downloads.

    What the engine writes on the way (compiled kernels, a model's own code) goes into the probe's folder. Its help is
    asked for in long lines, which break no name.
    """
    variables = engine_variables(request["python"], request["environment"])
    was_offline = variables.get(b"HF_HUB_OFFLINE", b"").decode("ascii", "replace").lower() not in FALSE_WORDS
    path = variables.get(b"PATH", os.defpath.encode("ascii")).decode("utf-8", "surrogateescape")
    tmp = os.path.join(place, "tmp")
    ours = {
        "PATH": os.path.join(place, "bin") + ":" + path,
        "CUDA_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "1000",
        "TMPDIR": tmp,
        "HF_MODULES_CACHE": tmp,
        "TRITON_CACHE_DIR": tmp,
        "TORCHINDUCTOR_CACHE_DIR": tmp,
    }
    variables.update({name.encode("ascii"): encoded(value) for name, value in ours.items()})
    return variables, not was_offline


def _has_gpus() -> bool:
    """Tell whether this machine has GPUs, which the engine would see if they were not hidden."""
    return gpu.program_path() is not None or any(os.path.isdir(path) for path in GPU_FOLDERS)


def _model_stamp(model: Dict[str, Any], environment: Dict[str, str]) -> str:
    """Return what changes when a model's folder gets another configuration, or other files."""
    path = model["path"]
    directory = path if os.path.isabs(path) else snapshot_of(path, model["revision"], environment)
    if directory is None:
        return "absent"
    return " ".join(_stamp(place) for place in (directory, os.path.join(directory, "config.json")))


def _stamp(path: str) -> str:
    try:
        facts = os.stat(path)
    except OSError:
        return "absent"
    return "%d:%d:%d" % (facts.st_ino, facts.st_size, facts.st_mtime_ns)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode("ascii")).hexdigest()
