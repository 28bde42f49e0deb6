"""Packages named sglang and torch that a test writes: what an engine's Python finds when arguments are judged."""

from pathlib import Path

TORCH = """
from types import SimpleNamespace
import sys
version = SimpleNamespace(cuda="13.0")
cuda = SimpleNamespace(is_available=lambda: False)
"""
SERVER_ARGS = """
import os, sys, subprocess, time, socket, logging, argparse
import torch

class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", "--model", required=True)
        parser.add_argument("--tp-size", "--tensor-parallel-size", type=int, default=1)
        parser.add_argument("--cuda-graph-max-bs-decode", type=int)
        parser.add_argument("--cuda-graph-max-bs-prefill", type=int)
        parser.add_argument("--dtype", choices=["auto", "half"], default="auto")
        parser.add_argument("--old-flag", action="store_true", help="Deprecated. Use --tp-size instead.")
        parser.add_argument("--port", type=int)

    def resolve_once(self):
{body}

def prepare_server_args(argv):
    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    made = ServerArgs()
    made.args = parser.parse_args(argv)
    return made
"""


class EngineFolder:
    """A folder of packages that goes on PYTHONPATH."""

    def __init__(self, folder: Path, version: str = "9.9.9") -> None:
        self.folder = folder
        record = folder / f"sglang-{version}.dist-info"
        record.mkdir(parents=True)
        (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
        self.write("sglang/__init__.py", "")
        self.write("sglang/srt/__init__.py", "")
        self.write("torch/__init__.py", TORCH)
        self.resolves("pass")

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.folder)}

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def resolves(self, body: str) -> None:
        """Let resolution do this; the lines see `self.args`, os, sys, subprocess, time, socket, logging and torch."""
        lines = "\n".join(f"        {line}" for line in body.splitlines())
        self.write("sglang/srt/server_args.py", SERVER_ARGS.replace("{body}", lines))
