"""Which lines are worth a look, which of them speak of trouble, which end a process, and which only sound bad.

Facts: SGLang §5 and §6. The words of a healthy log that sound like errors are listed, not guessed.
"""

import re

from service.sglang.patterns import any_of, any_word

_MARK_WORDS = (
    b"server_args=",
    b"ready to roll",
    b"Dummy health",
    b"SIGTERM",
    b"SIGINT",
    b"SIGQUIT",
    b"SIGKILL",
    b"SIGABRT",
    b"SIGSEGV",
    b"SIGBUS",
    b"sigquit",
    b"Gracefully",
    b"Shutting down",
    b"KeyboardInterrupt",
    b"Init torch",
    b"Init parallel",
    b"oad weight",
    b"KV Cache",
    b"KV cache",
    b"Memory pool",
    b"Mamba Cache",
    b"sliding window memory",
    b"Captur",
    b"DeepGEMM",
    b"autotune",
    b"otal_num_token",
    b"Started server",
    b"pplication startup",
    b"granian",
    b"Uvicorn",
    b"Listening",
    b"model_info",
    b"armup",
    b"Attention backend",
    b"Casting torch",
    b"Hybrid swa",
    b"not fully opt",
    b"is disabled",
    b"deprecated",
    b"Max running",
    b"config.json",
    b"HF snapshot",
    b"launch_server.py",
    b"== SGLang",
    b"Tree cache",
    b"resource_tracker",
    b"% Completed |",
    b"%|",
    b"SGLang Version",
    b"sglang version",
    b"sglang==",
    b"/sglang-",
    b"Endpoint '/",
)
_TROUBLE_WORDS = (
    b"rror",
    b"xception",
    b"Traceback",
    b"ailed",
    b"ailure",
    b"FAILED",
    b"crash",
    b"illed",
    b"egfault",
    b"Segmentation",
    b"core dumped",
    b"Aborted",
    b"atchdog",
    b"ut of memory",
    b"OutOf",
    b"OOM",
    b"oom-kill",
    b"terminate called",
    b"what()",
    b"Xid",
    b"xit code",
    b"xitcode",
    b"exit ",
    b"imed out",
    b"imeout",
    b"leak detected",
    b"etract",
    b"Health check",
    b"is dead",
    b" died",
    b"not supported",
    b"NCCL WARN",
    b'File "',
    b"fault by GPU",
    b"HSA_",
    b"ECC",
    b"fallen off",
    b"No space left",
    b"Broken pipe",
    b"closed by peer",
    b"reset by peer",
    b"already in use",
    b"JIT",
    b"jit/",
    b"ninja",
    b"nvcc",
    b"cpp_extension",
    b"file_baton",
    b"annot ",
    b"nable to",
    b"nvalid",
    b"unexpected",
    b"unrecognized",
    b"ambiguous option",
    b"GPU is lost",
    b"Losing connection",
    b"Could not ",
    b"LLVM ERROR",
    b"HW Exception",
    b"EZ9999",
    b"Fail to ",
    b"requires reset",
    b"During handling",
    b"direct cause",
    b"OutOfResources",
    b"<html",
    b"<!DOCTYPE",
)
INTERESTING = any_word(*_MARK_WORDS, *_TROUBLE_WORDS)
"""Searched in the raw bytes of every line of a new shape: the gate to all slower tests."""

_TROUBLE = re.compile(any_word(*_TROUBLE_WORDS).pattern.decode())

_LOGGED_REQUEST = re.compile(r"obj=\w+ReqInput\b")
_BENIGN = any_of(
    r"Ignore import error when loading",
    r"[Cc]ustom allreduce is disabled",
    r"Setup Custom allreduce failed",
    r"Fail to set RLIMIT_NOFILE",
    r"is deprecated and will be",
    r"can be ignored",
    r"destroy_process_group\(\) was not called",
    r"This will cause significant performance",
    r"should almost never be disabled",
    r"If you encounter OOM issues",
    r"Failed to import amdsmi",
    r"type hints mismatch",
    r"calibration warmup failed; .{0,60}fallback",
    r"Unexpected error during package walk",
    r"Failed to load generation config",
    r"Failed to get GPU memory capacity from nvidia-smi",
    r"Failed to get device capability",
    r"(?:Future|User|Syntax|Deprecation|Runtime)Warning",
    r"^\s+warnings\.warn\(",
    r"resource_tracker: There appear to be",
    r"unauthenticated requests to the HF Hub",
    r"OpenAI Responses API .{0,40} disabled",
    r"soft_watchdog_timeout",
    r"^Watchdog \w+ initialized",
    _LOGGED_REQUEST.pattern,
    r"Config file not found at",
    r"Performance might be sub-optimal",
    r"Failed to initialize QuickAllReduce",
    r"Failed to update weights",
    r"Failed to get weights iterator",
    r"Acceleration for non-quantized schemes is not supported",
    r"does not require setting speculative_draft_model_path",
    r"[Ff]all(?:ing)? ?back to",
    r"Please note that the format is experimental",
    r"not found in params_dict",
)
"""Lines of healthy logs that hold an error word."""

_FATAL = any_of(
    r"\b(?:Scheduler|\w+Manager|\w+Controller|\w+WorkerClient|ModelTp\w+) hit an exception",
    r"^Exception in (?:Model\w+|run_\w+|TpModelWorker\w*)\b",
    r"^\w+ init state: Traceback",
    r"[Rr]eceived sigquit from a child proc",
    r"^SIGQUIT received\.",
    r"^Initialization failed\.",
    r"scheduler died during initialization",
    r"^Rank \d+ scheduler is dead",
    r"^Scheduler or DataParallelController \d+ terminated with [1-9-]",
    r"(?:launch_server\.py|sglang serve|sglang): error: ",
    r"error while attempting to bind on address",
    r"^\[Errno 98\]",
    r"Fatal Python error: ",
    r"Segfault encountered",
    r"^terminate called after throwing",
    r"\(core dumped\)",
    r"^(?:Killed|Aborted|Bus error|Segmentation fault)$",
    r": line \d+:\s{1,4}\d+ (?:Killed|Aborted|Segmentation fault|Bus error)\b",
    r"[Ww]atchdog timeout \((?!.{0,120}soft=True)",
    r"Watchdog caught collective operation timeout",
    r"terminating the process due to",
    r"To avoid data inconsistency, we are taking",
    r"^Subprocess \S+ \(pid=\d+\) crashed with exit code",
    r"kill_process_tree called: .{0,60}include_parent=True",
    r"Memory access fault by GPU",
    r"HSA_STATUS_ERROR",
    r"Out of memory: Kill(?:ed)? process",
    r"cgroup out of memory: Kill",
    r"^Exit code: -\d+",
)
_AFTERMATH = any_of(r"sigquit|SIGQUIT", r"[Ee]xit ?code", r"^exit \d", r"^Killed$", r"kill_process_tree", r"is dead\.")
_CHILD_EXIT = re.compile(r"^Child process unexpectedly failed with (?:an )?exit ?code[ =](-?\d+)")
_EXIT_LINE = re.compile(r"^exit ([1-9]\d{0,2})$")
_STOP_EXITS = {"130", "143"}
_KILLED = {"9", "-9"}


def is_aftermath(text: str) -> bool:
    """Return whether a line only tells that something has failed before."""
    return _AFTERMATH.search(text) is not None


def is_trouble(text: str) -> bool:
    """Return whether a line speaks of trouble, so that a rule may want it."""
    return _TROUBLE.search(text) is not None


def is_benign(text: str) -> bool:
    """Return whether a line is known from healthy logs, whatever it sounds like."""
    return _BENIGN.search(text) is not None


def is_request(text: str) -> bool:
    """Return whether a line is a request that was logged whole: whatever it says, a user said it."""
    return _LOGGED_REQUEST.search(text) is not None


def is_fatal(text: str, *, was_ready: bool) -> bool:
    """Return whether a line says that a process of the engine has ended in an error.

    Children that exit with 9 after a server was ready were killed with it: a harness that is done does so.
    """
    if _FATAL.search(text):
        return True
    if child := _CHILD_EXIT.match(text):
        return child[1] not in _KILLED or not was_ready
    ended = _EXIT_LINE.match(text)
    return ended is not None and ended[1] not in _STOP_EXITS
