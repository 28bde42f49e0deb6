"""`vigil bench import`, `runs`, `baseline` and `vigil compare` against a service that runs."""

import json
from pathlib import Path

import pytest

from tests.api.bench_files import STEADY_90, line, lines, steady
from tests.cli.conftest import Operator


def imported(operator: Operator, name: str, content: bytes, *options: str) -> str:
    """Import a file and return the id of its run."""
    path = operator.folder / name
    path.write_bytes(content)
    done = operator.run("bench", "import", str(path), "--json", *options)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["id"])


def test_two_files_are_imported_and_compared(operator: Operator) -> None:
    operator.profile("kimi")
    of = ("--profile", "kimi", "--benchmark", "nightly", "--gpu-model", "B200", "--gpu-count", "8")
    base = imported(operator, "base.jsonl", lines(STEADY_90, accept_length=3.1), *of)
    pinned = operator.run("bench", "baseline", "kimi", base)
    assert (pinned.returncode, pinned.stdout) == (0, f"the baseline of kimi for nightly is {base}\n")
    slow = imported(operator, "slow.jsonl", lines(steady(24.8, seed=1), accept_length=1.0), *of)
    compared = operator.run("compare", "kimi", slow)
    assert compared.returncode == 1
    table = {row.split()[0]: row for row in compared.stdout.splitlines() if row}
    assert compared.stdout.startswith(f"{slow} against {base}: regressed\n")
    assert "-72." in table["output_throughput_tps"]
    assert table["output_throughput_tps"].endswith("regressed")
    assert table["accept_length"].split()[2:] == ["3.1", "1", "-", "-", "-", "-"]
    listed = operator.run("bench", "runs", "--profile", "kimi")
    assert [row.split()[0] for row in listed.stdout.splitlines()] == ["run", slow, base]
    assert "regressed" in listed.stdout.splitlines()[1]
    assert operator.run("bench", "runs", "--state", "nonsense").returncode == 3
    as_json = operator.run("compare", f"{base},{base}", base, "--json")
    assert (as_json.returncode, json.loads(as_json.stdout)["verdict"]) == (0, "equivalent")


def test_what_may_not_be_compared_is_told_and_may_be_accepted(operator: Operator) -> None:
    first = imported(operator, "one.jsonl", lines(STEADY_90), "--gpu-model", "H100")
    second = imported(operator, "two.jsonl", lines(STEADY_90, tag="x"), "--gpu-model", "B200")
    refused = operator.run("compare", first, second)
    assert (refused.returncode, "gpu_model differs: H100 against B200" in refused.stderr) == (0, True)
    accepted = operator.run("compare", first, second, "--accept", "gpu_model")
    assert f"{second} against {first}: equivalent" in accepted.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<html>", "result_file_rejected: the file is HTML"),
        (line(90.0)[:-20], "result_file_rejected: the file ends in the middle"),
    ],
)
def test_a_wrong_file_ends_with_three_and_its_reason(operator: Operator, content: bytes, said: str) -> None:
    path = operator.folder / "wrong"
    path.write_bytes(content)
    done = operator.run("bench", "import", str(path))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(said)


def test_a_file_that_is_not_there_or_too_large_is_not_sent(operator: Operator, tmp_path: Path) -> None:
    absent = operator.run("bench", "import", str(tmp_path / "absent"))
    assert (absent.returncode, "No such file" in absent.stderr) == (3, True)
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(2 * 1024**3)
    done = operator.run("bench", "import", str(huge))
    assert (done.returncode, "larger than 32 MiB" in done.stderr) == (3, True)


def test_large_numbers_are_written_out(operator: Operator) -> None:
    path = operator.folder / "large.jsonl"
    path.write_bytes(lines([24_810.0, 24_790.0]))
    done = operator.run("bench", "import", str(path))
    assert done.stdout.splitlines()[1] == "  C=3: 24,800 tok/s, mean of 2"
    run = done.stdout.split()[1].removesuffix(":")
    assert "24,800 tok/s" in operator.run("bench", "runs").stdout
    row = next(row for row in operator.run("compare", run, run).stdout.splitlines() if row.startswith("output_thr"))
    assert row.split()[2:4] == ["24,800", "24,800"]
