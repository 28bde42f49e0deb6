"""`vigil diagnose`: one JSON object a file, or text for a person; files, pipes, and files that cannot be read."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.cli.diagnose import diagnose_files, read_stream
from service.sglang.startup_log import StartupLog
from tests.sglang.lines import CAPTURING, INIT, SERVING, SRT, as_log, hit

FAILED = as_log(
    CAPTURING,
    hit(
        *INIT, f"{SRT}/model_executor/cuda_graph_runner.py capture", error="RuntimeError: Ninja is required to load C++"
    ),
)


def written(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_one_object_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [written(tmp_path, "a.log", FAILED), written(tmp_path, "b.log", as_log(SERVING))]
    assert diagnose_files(paths, as_json=True) == 0
    failed, healthy = objects(capsys.readouterr().out)
    assert list(failed)[:7] == ["file", "phase", "is_ready", "has_failed", "engine_version", "phases", "diagnosis"]
    assert (failed["file"], failed["phase"], failed["has_failed"]) == (paths[0], "capturing_graphs", True)
    assert failed["phases"][-1]["progress"] == {"done": 1, "total": 4, "unit": "graphs"}
    assert failed["phases"][-1]["started_at"] == "2026-03-01T10:00:23.000Z"
    assert set(failed["diagnosis"]) == {"code", "summary", "remedy", "confidence", "evidence"}
    assert failed["diagnosis"]["code"] == "jit_compile_failure"
    assert failed["diagnosis"]["evidence"][0]["text"] == "RuntimeError: Ninja is required to load C++"
    assert (healthy["is_ready"], healthy["has_failed"], healthy["diagnosis"]) == (True, False, None)


def test_a_file_that_cannot_be_read_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tmp_path / "absent.log"), str(tmp_path), written(tmp_path, "b.log", as_log(SERVING))]
    assert diagnose_files(paths, as_json=True) == 2
    captured = capsys.readouterr()
    assert [found["file"] for found in objects(captured.out)] == [paths[2]]
    assert "absent.log" in captured.err


def test_text_for_a_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert diagnose_files([written(tmp_path, "a.log", FAILED)], as_json=False) == 0
    text = capsys.readouterr().out
    assert "failed in capturing_graphs" in text
    assert "jit_compile_failure (high confidence)" in text
    assert "RuntimeError: Ninja is required to load C++" in text
    assert "Remedy: Install the compiler tools" in text


def test_standard_input() -> None:
    command = [sys.executable, "-m", "service.cli.diagnose", "--json", "-"]
    done = subprocess.run(command, input=FAILED, capture_output=True, check=True)
    (found,) = objects(done.stdout.decode())
    assert (found["file"], found["diagnosis"]["code"]) == ("-", "jit_compile_failure")


def test_a_stream_is_read_in_pieces_to_the_same_end() -> None:
    data = FAILED * 900
    assert read_stream(io.BytesIO(data)).log.reading == StartupLog().feed(data).reading


def test_an_empty_file_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert diagnose_files([written(tmp_path, "empty.log", b"")], as_json=True) == 0
    (found,) = objects(capsys.readouterr().out)
    assert (found["phase"], found["diagnosis"], found["phases"]) == (None, None, [])
