"""`vigil diagnose`: reads logs of SGLang with no service, node or database, and says what they tell."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console

from service.clock import to_text
from service.sglang.failures import Diagnosis, Evidence, Finding, diagnose, findings
from service.sglang.log_order import SAMPLE_BYTES, CompleteLog, is_newest_first, read_in_order
from service.sglang.startup_log import LogReading, PhaseSpan, Progress, StartupLog

STDIN = "-"
PIECE_BYTES = 1 << 20
TURNED_LIMIT_BYTES = 256 << 20
"""A log that begins with its newest line is held in memory to be turned round, up to this size."""
OK, UNREADABLE = 0, 2


def diagnose_files(paths: Sequence[str], *, as_json: bool) -> int:
    """Print the reading of each file, `-` being standard input; as JSON one object a line.

    Returns 0, or 2 when a file cannot be read; what a log tells is in the output, not in the exit code.
    """
    result = OK
    for path in paths:
        try:
            log = _read_path(path)
        except OSError as error:
            Console(stderr=True).print(f"{path}: {error.strerror or error}", markup=False, highlight=False)
            result = UNREADABLE
            continue
        if as_json:
            sys.stdout.write(json.dumps(as_object(path, log)) + "\n")
        else:
            _print_reading(path, log)
    return result


def read_stream(stream: BinaryIO) -> CompleteLog:
    """Read a log to its end in constant memory; only one that begins with its newest line is held and turned round."""
    head = stream.read(SAMPLE_BYTES)
    if is_newest_first(head):
        return read_in_order(head + stream.read(TURNED_LIMIT_BYTES))
    log = StartupLog()
    for piece in chain([head], _pieces(stream)):
        log = log.feed(piece)
    return CompleteLog(log)


def as_object(path: str, complete: CompleteLog) -> dict[str, Any]:
    """Return a reading as the HTTP and command-line contract words it."""
    log = complete.log
    reading, diagnosis = log.reading, diagnose(log)
    return {
        "file": path,
        "phase": reading.phase,
        "is_ready": reading.is_ready,
        "has_failed": reading.has_failed,
        "engine_version": reading.engine_version,
        "phases": [_span(span) for span in reading.phases],
        "diagnosis": _diagnosis(diagnosis, complete),
        "findings": [_finding(finding, complete) for finding in findings(log)],
    }


def _read_path(path: str) -> CompleteLog:
    if path == STDIN:
        return read_stream(sys.stdin.buffer)
    with Path(path).open("rb") as stream:
        return read_stream(stream)


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(PIECE_BYTES):
        yield piece


def _span(span: PhaseSpan) -> dict[str, Any]:
    return {
        "phase": span.phase,
        "started_at": to_text(span.started_at) if span.started_at else None,
        "ended_at": to_text(span.ended_at) if span.ended_at else None,
        "progress": _progress(span.progress),
    }


def _progress(progress: Progress | None) -> dict[str, Any] | None:
    if progress is None:
        return None
    return {"done": progress.done, "total": progress.total, "unit": progress.unit}


def _diagnosis(diagnosis: Diagnosis | None, complete: CompleteLog) -> dict[str, Any] | None:
    if diagnosis is None:
        return None
    return {
        "code": diagnosis.code,
        "summary": diagnosis.summary,
        "remedy": diagnosis.remedy,
        "confidence": diagnosis.confidence,
        "evidence": _quoted(diagnosis.evidence, complete),
    }


def _finding(finding: Finding, complete: CompleteLog) -> dict[str, Any]:
    return {
        "code": finding.code,
        "began_at": to_text(finding.began_at) if finding.began_at else None,
        "ended_at": to_text(finding.ended_at) if finding.ended_at else None,
        "count": finding.count,
        "evidence": _quoted(finding.evidence, complete),
    }


def _quoted(evidence: Sequence[Evidence], complete: CompleteLog) -> list[dict[str, Any]]:
    return [{"line": complete.line_in_file(one.line), "text": one.text} for one in evidence]


def _print_reading(path: str, complete: CompleteLog) -> None:
    reading, diagnosis = complete.log.reading, diagnose(complete.log)
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(f"{path}: {_state(reading)}", style="bold")
    for span in reading.phases:
        console.print(f"  {_spoken_span(span)}")
    if diagnosis is None:
        console.print("  nothing wrong is visible in this log")
        return
    console.print(f"  {diagnosis.code} ({diagnosis.confidence} confidence)", style="bold red")
    console.print(f"  {diagnosis.summary}")
    for evidence in diagnosis.evidence:
        console.print(f"    line {complete.line_in_file(evidence.line)}: {evidence.text}", style="dim")
    console.print(f"  Remedy: {diagnosis.remedy}", style="green")


def _state(reading: LogReading) -> str:
    state = "failed" if reading.has_failed else "ready" if reading.is_ready else "starting"
    phase = f" in {reading.phase}" if reading.phase else ""
    version = f", SGLang {reading.engine_version}" if reading.engine_version else ""
    return f"{state}{phase}, {reading.line_count} lines{version}"


def _spoken_span(span: PhaseSpan) -> str:
    began = to_text(span.started_at) if span.started_at else "-"
    took = ""
    if span.started_at and span.ended_at:
        took = f" for {(span.ended_at - span.started_at).total_seconds():.0f} s"
    progress = span.progress
    return f"{began} {span.phase}{took}" + (
        f", {progress.done} of {progress.total} {progress.unit}" if progress else ""
    )


def main(arguments: Sequence[str]) -> int:
    """Run as a program of its own: `python -m service.cli.diagnose [--json] FILE...`."""
    paths = [argument for argument in arguments if argument != "--json"]
    return diagnose_files(paths or [STDIN], as_json="--json" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
