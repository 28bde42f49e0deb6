"""Tracebacks as the engine prints them: frames in its own files, then the exception."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from .versions import site_packages


class Frame(NamedTuple):
    """One frame: a file below site-packages, a line, a function and its code."""

    file: str
    line: int
    function: str
    code: str


LAUNCH_FRAMES = (
    Frame("sglang/launch_server.py", 84, "<module>", "run_server(server_args)"),
    Frame("sglang/launch_server.py", 67, "run_server", "launch_server(server_args)"),
    Frame("sglang/srt/entrypoints/http_server.py", 3156, "launch_server", ") = Engine._launch_subprocesses("),
    Frame("sglang/srt/entrypoints/engine.py", 1350, "_launch_subprocesses", "scheduler_init_result.wait_for_ready()"),
    Frame("sglang/srt/entrypoints/engine.py", 2029, "_wait_for_scheduler_ready", "raise _scheduler_died_error(i, p)"),
)
"""The parent, waiting for its schedulers."""
RESOLVE_FRAMES = (
    Frame("sglang/launch_server.py", 84, "<module>", "run_server(server_args)"),
    Frame("sglang/launch_server.py", 29, "run_server", "server_args.resolve_once()"),
    Frame("sglang/srt/server_args.py", 277, "resolve_once", "run_resolution_pipeline(self)"),
)
"""The parent, resolving its arguments; older versions do it in the constructor."""
POST_INIT_FRAMES = (
    Frame("sglang/launch_server.py", 59, "<module>", "server_args = prepare_server_args(sys.argv[1:])"),
    Frame("sglang/srt/server_args.py", 6549, "prepare_server_args", "return ServerArgs.from_cli_args(raw_args)"),
    Frame(
        "sglang/srt/server_args.py",
        5817,
        "from_cli_args",
        "return cls(**{attr: getattr(args, attr) for attr in attrs})",
    ),
    Frame("sglang/srt/server_args.py", 812, "__post_init__", "self._resolve()"),
)
"""The same, before 0.5.23."""
SCHEDULER_FRAMES = (
    Frame("sglang/srt/managers/scheduler.py", 6350, "run_scheduler_process", "scheduler = Scheduler("),
    Frame("sglang/srt/managers/scheduler.py", 1102, "__init__", "self.init_model_worker()"),
    Frame("sglang/srt/managers/tp_worker.py", 312, "__init__", "self._init_model_runner()"),
)
"""A scheduler, building its model."""


class EngineError(Exception):
    """An exception of the engine: its last line, and the frames above it."""

    def __init__(self, exception: str, frames: Sequence[Frame] = ()) -> None:
        super().__init__(exception)
        self.exception = exception
        self.frames = tuple(frames)


def traceback_text(frames: Sequence[Frame], exception: str) -> str:
    """Return a traceback, without a newline at its end."""
    lines = ["Traceback (most recent call last):"]
    if frames and frames[0].function == "<module>":
        lines += [
            '  File "<frozen runpy>", line 198, in _run_module_as_main',
            '  File "<frozen runpy>", line 88, in _run_code',
        ]
    for frame in frames:
        lines.append(f'  File "{site_packages()}/{frame.file}", line {frame.line}, in {frame.function}')
        lines.append(f"    {frame.code}")
    return "\n".join([*lines, exception])
