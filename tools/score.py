"""Scores the log reader against a corpus of logs with their expected reading, and prints the score by code.

A corpus is a folder of cases, each with `log.txt` and `case.json` (`final_state`, `last_phase`, `diagnosis`,
`evidence`). A log cannot tell `hung` from slow without a clock: of such a case `starting` with the same phase is right
too, and so is no diagnosis. A diagnosis of a healthy log is a false alarm and counts double.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from service.sglang.failures import Diagnosis, diagnose
from service.sglang.log_order import read_in_order

DEFAULT_CORPUS = Path(__file__).resolve().parent.parent.parent / "shared" / "logcorpus"
TARGETS = {"diagnosis": 0.95, "phase": 0.95, "state": 1.0, "evidence": 0.90}
_HEALTHY = "none"
_FAILED = "crashed"
_READY = ("ready", "degraded")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one case was read, and what was expected."""

    name: str
    expected_code: str
    code: str
    is_code_right: bool
    is_phase_right: bool
    is_state_right: bool
    is_evidence_found: bool | None
    remark: str

    @property
    def is_false_alarm(self) -> bool:
        """Whether a healthy log was called ill."""
        return self.expected_code == _HEALTHY and self.code != _HEALTHY


def score_case(folder: Path) -> Outcome:
    """Read one case and compare."""
    expected = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    log = read_in_order((folder / "log.txt").read_bytes()).log
    reading, diagnosis = log.reading, diagnose(log)
    state, code = expected["final_state"], diagnosis.code if diagnosis else _HEALTHY
    is_hung = state == "hung"
    has_serving_phase = expected["last_phase"] == "serving"
    is_state_right = reading.has_failed == (state == _FAILED) and (
        reading.is_ready == (state in _READY) or (is_hung and has_serving_phase)
    )
    phase = str(reading.phase or "")
    return Outcome(
        name=folder.name,
        expected_code=expected["diagnosis"],
        code=code,
        is_code_right=code == expected["diagnosis"] or (is_hung and code == _HEALTHY),
        is_phase_right=phase == expected["last_phase"],
        is_state_right=is_state_right,
        is_evidence_found=_is_evidence_found(diagnosis, expected["evidence"]) if state == _FAILED else None,
        remark=f"phase {phase} ({expected['last_phase']}), ready {reading.is_ready}, "
        f"failed {reading.has_failed} ({state})",
    )


def _is_evidence_found(diagnosis: Diagnosis | None, wanted: Iterable[str]) -> bool:
    """Return whether any wanted line is among the evidence; long lines are quoted by their beginning."""
    if diagnosis is None:
        return False
    found = [_squeezed(evidence.text) for evidence in diagnosis.evidence]
    return any(
        text and line and (line[:200] in text or text[:200] in line)
        for line in map(_squeezed, wanted)
        for text in found
    )


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def print_report(outcomes: list[Outcome]) -> bool:
    """Print the score by code and in total; returns whether every target is met."""
    codes = sorted({outcome.expected_code for outcome in outcomes})
    print(f"{'code':34} {'cases':>5} {'right':>5}")
    for code in codes:
        cases = [outcome for outcome in outcomes if outcome.expected_code == code]
        print(f"{code:34} {len(cases):5} {sum(outcome.is_code_right for outcome in cases):5}")
    for outcome in outcomes:
        wrong = [
            name
            for name, is_right in (
                ("diagnosis", outcome.is_code_right),
                ("phase", outcome.is_phase_right),
                ("state", outcome.is_state_right),
                ("evidence", outcome.is_evidence_found is not False),
            )
            if not is_right
        ]
        if wrong:
            print(f"  {outcome.name}: {', '.join(wrong)}: {outcome.code} ({outcome.expected_code}); {outcome.remark}")
    false_alarms = sum(outcome.is_false_alarm for outcome in outcomes)
    failures = [outcome for outcome in outcomes if outcome.is_evidence_found is not None]
    shares = {
        "diagnosis": (sum(outcome.is_code_right for outcome in outcomes) - false_alarms) / max(1, len(outcomes)),
        "phase": sum(outcome.is_phase_right for outcome in outcomes) / max(1, len(outcomes)),
        "state": sum(outcome.is_state_right for outcome in outcomes) / max(1, len(outcomes)),
        "evidence": sum(bool(outcome.is_evidence_found) for outcome in failures) / max(1, len(failures)),
    }
    print(f"{len(outcomes)} cases, {len(failures)} failures, {false_alarms} false alarms (each counts double)")
    for name, share in shares.items():
        print(f"{name:10} {share:7.1%}  (target {TARGETS[name]:.0%}){'' if share >= TARGETS[name] else '  BELOW'}")
    return all(share >= TARGETS[name] for name, share in shares.items())


def main() -> int:
    """Score the corpus named on the command line, or the shared one; without any there is nothing to do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="?", type=Path, default=DEFAULT_CORPUS)
    corpus = parser.parse_args().corpus
    folders = sorted(path.parent for path in corpus.glob("*/case.json")) if corpus.is_dir() else []
    if not folders:
        print(f"no corpus at {corpus}: nothing to score")
        return 0
    return 0 if print_report([score_case(folder) for folder in folders]) else 1


if __name__ == "__main__":
    sys.exit(main())
