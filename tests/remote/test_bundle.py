"""What is sent to a node: modules in the order of their imports, in Python 3.8, through any login shell."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.remote import on_node
from service.remote.bundle import PYTHON_ARGV, VERB_MODULES, argument_probe, payload, supervisor_script
from service.remote.command_line import command_line
from service.remote.on_node import answering

SOURCES = sorted(Path(on_node.__file__).parent.glob("*.py"))
OLDEST_MINOR = 8


def runs(program: str, *arguments: str) -> bool:
    """Tell whether a program is here and does its work: a shim may stand for an interpreter that is not."""
    found = shutil.which(program)
    return found is not None and subprocess.run([found, *arguments], check=False, capture_output=True).returncode == 0


PYTHONS = [name for name in (f"python3.{minor}" for minor in range(OLDEST_MINOR, 15)) if runs(name, "-c", "")]
SHELLS = [
    name for name in ("sh", "bash", "dash", "zsh", "fish", "csh", "tcsh", "ksh", "mksh") if runs(name, "-c", "exit 0")
]
TEXTS = ["plain", "it's", "a\\b\\\\n", "!x !!", "$HOME `id` $(id)", "l\nm", "é🙂", "", "a 'b' \"c\""]


def modules_for(verb: str) -> list[tuple[str, str]]:
    sent = json.loads(payload(verb, {}, limit_s=1).split(b"\n", 1)[1])
    return [(name, source) for name, source in sent["modules"]]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_nodes_code_is_python_3_8_and_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, OLDEST_MINOR))
    names = set()
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            names |= {alias.name.split(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0:
            names.add((statement.module or "").split(".")[0])
    assert names <= sys.stdlib_module_names


def test_every_module_of_the_folder_is_sent_for_some_verb() -> None:
    sent = {name for verb in VERB_MODULES for name, _ in modules_for(verb)}
    inside_the_engine = {name for name, _ in argument_probe()}
    assert sent == {path.stem for path in SOURCES} - {"__init__"} - inside_the_engine
    assert inside_the_engine == {"argument_probe", "probe_gpus", "probe_parser"}


def test_a_module_comes_after_those_it_imports() -> None:
    for verb in VERB_MODULES:
        seen: set[str] = set()
        for name, source in modules_for(verb):
            for statement in ast.parse(source).body:
                if isinstance(statement, ast.ImportFrom) and statement.level == 1:
                    needed = {statement.module} if statement.module else {alias.name for alias in statement.names}
                    assert needed <= seen, (verb, name)
            seen.add(name)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("verb", ["inventory", "list_launches"])
def test_verbs_run_on_every_python_that_is_here(python: str, verb: str, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": os.defpath, "LC_ALL": "C"}
    done = subprocess.run(
        [shutil.which(python) or python, *PYTHON_ARGV[1:]],
        input=payload(verb, {"paths": [], "only": None}, limit_s=30),
        capture_output=True,
        env=environment,
        check=False,
    )
    assert done.stderr == b""
    assert done.stdout.startswith(answering.MARK)
    assert "result" in json.loads(done.stdout[len(answering.MARK) :])


def test_a_verb_that_takes_too_long_ends_itself(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nsleep 5\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    done = subprocess.run(
        PYTHON_ARGV,
        input=payload("inventory", {"paths": []}, limit_s=1),
        capture_output=True,
        env={"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.defpath}"},
        check=False,
    )
    assert (done.returncode, done.stdout) == (-14, b"")


def test_an_unforeseen_failure_is_an_answer() -> None:
    done = subprocess.run(PYTHON_ARGV, input=payload("read_log", {}, limit_s=5), capture_output=True, check=False)
    assert json.loads(done.stdout[len(answering.MARK) :]) == {"failed": "KeyError: 'launch'"}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("text", TEXTS)
def test_arguments_survive_every_login_shell_that_is_here(shell: str, text: str) -> None:
    done = subprocess.run([shell, "-c", command_line(["printf", "[%s]", text])], capture_output=True, check=True)
    assert done.stdout == f"[{text}]".encode()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_any_arguments_survive(words: list[str]) -> None:
    done = subprocess.run(["/bin/sh", "-c", command_line(["printf", "%s\\1", *words])], capture_output=True, check=True)
    assert done.stdout == "".join(f"{word}\x01" for word in words).encode()


def test_the_supervisor_is_a_posix_script() -> None:
    for shell in SHELLS[:3]:
        subprocess.run([shell, "-n"], input=supervisor_script().encode(), check=True)
