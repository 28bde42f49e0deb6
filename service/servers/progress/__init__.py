"""What the progress of a start tells: marks, verdicts, deadlines, the time that is left, the comparison with others."""

from service.servers.progress.comparison import PhaseRatio, StartComparison, StartVerdict, compare_start
from service.servers.progress.deadlines import DeadlineSource, Expectation, Expected, expected_from
from service.servers.progress.eta import Eta, PhaseEta, eta
from service.servers.progress.judge import Judgement, Verdict, evidence, judge
from service.servers.progress.marks import Grade, Mark, Marks, Spent
from service.servers.progress.record import marks_from_record, marks_record
from service.servers.progress.samples import History, HistoryLevel, PhaseSample
from service.servers.progress.sight import MarkSource

__all__ = [
    "DeadlineSource",
    "Eta",
    "Expectation",
    "Expected",
    "Grade",
    "History",
    "HistoryLevel",
    "Judgement",
    "Mark",
    "MarkSource",
    "Marks",
    "PhaseEta",
    "PhaseRatio",
    "PhaseSample",
    "Spent",
    "StartComparison",
    "StartVerdict",
    "Verdict",
    "compare_start",
    "eta",
    "evidence",
    "expected_from",
    "judge",
    "marks_from_record",
    "marks_record",
]
