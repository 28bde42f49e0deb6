"""What is thought of one launch: while it starts from its marks and its deadline, while it serves from its counters."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from service.clock import to_text
from service.db.tables import Launch
from service.profiles.profile import Profile
from service.profiles.speculation import speculation_terms
from service.servers.observation import HealthFact, Observation
from service.servers.progress import (
    Expected,
    History,
    Judgement,
    Marks,
    Verdict,
    eta,
    evidence,
    expected_from,
    judge,
    marks_from_record,
    marks_record,
)
from service.servers.progress.judge import SETTLE_S
from service.servers.serving import FLOW_MARGIN_S, HEALTH_DEADLINE_S, Flow, ServingJudgement, judge_serving
from service.sglang.acceptance import AcceptanceLedger
from service.sglang.metrics import EngineCounters
from service.sglang.startup_log import LogReading

WARM_UP_VARIABLE = "SGLANG_WARMUP_TIMEOUT"
DISAGGREGATED_WARM_UP_S = 1800.0
"""The engine's own limit on the warm-up where prefill and decode are apart (facts: SGLang §1.1); else it is 600 s."""


@dataclass(frozen=True, slots=True)
class Thought:
    """A verdict at an instant; `details` is what the API shows of it, as plain JSON values."""

    verdict: str
    message: str
    details: dict[str, Any]
    is_hung: bool = False


class VerdictWatch:
    """Folds what is seen of one launch and says what is thought of it."""

    def __init__(
        self,
        profile: Profile,
        launch: Launch,
        history: History,
        *,
        now: datetime,
        health_deadline_s: float = HEALTH_DEADLINE_S,
    ) -> None:
        self.history = history
        self.flow = Flow(fresh_s=health_deadline_s + FLOW_MARGIN_S)
        self.acceptance = AcceptanceLedger(speculation_terms(profile))
        self.thought: Thought | None = None
        self.kept: str | None = None
        """The verdict that the database has."""
        self.is_answered = False
        """Whether that was done which follows the suspected hang, if it is one."""
        self._since_at = now
        self._marks = _kept_marks(launch, now) or Marks.begin(now)
        self._expected: Expected = expected_from(
            history, hang_after_s=profile.limits.hang_after_s, warm_up_limit_s=_warm_up_limit_s(profile)
        )
        if launch.verdict is not None:
            self._since_at = datetime.fromisoformat(launch.verdict["since_at"])
            self.thought = Thought(launch.verdict["verdict"], launch.verdict["message"], launch.verdict)
            self.kept = self.thought.verdict

    def watched_anew(self, at: datetime) -> None:
        """Take note of a gap in the watch: what stood still in it is not held against the start."""
        self._marks = self._marks.watched_anew(at)

    def begin_anew(self, at: datetime) -> None:
        """Forget when anything moved: the clock that told it was set since."""
        self._marks, self.flow = Marks.begin(at), Flow(fresh_s=self.flow.fresh_s)

    def fold(self, observation: Observation, at: datetime) -> None:
        """Fold one look in, as of when it was seen here, with what the last scrape counted."""
        self._marks = self._marks.fold(observation, at=at, counters=self.flow.counters)

    def fold_counters(self, counters: EngineCounters | None, at: datetime) -> None:
        """Fold one scrape of the engine's metrics in; None for one that failed."""
        self.flow = self.flow.fold(counters, at)
        self.acceptance.fold_counters(counters, at)

    def note_batches(self, at: datetime) -> None:
        """Take note that the log told of batches."""
        self.flow = replace(self.flow, logged_at=at)

    def think_of_start(self, now: datetime, heard_at: datetime) -> bool:
        """Judge a start; True when the verdict is another than the one that is kept."""
        judgement = judge(self._marks, self._expected, now, heard_at=heard_at)
        return self._think(judgement.verdict, judgement.message, _start_details(judgement), now)

    def is_answer_due(self, now: datetime) -> bool:
        """Tell whether a suspected hang waits for what follows it; after a gap only what a good look bears out does."""
        if self.thought is None or not self.thought.is_hung or self.is_answered:
            return False
        return self._marks.lapsed_at is None or (now - self._marks.watched_from).total_seconds() >= SETTLE_S

    def think_of_serving(self, health: HealthFact, now: datetime, *, is_stopping: bool) -> bool:
        """Judge a server that was ready; True when the verdict is another than the one that is kept."""
        judgement = judge_serving(health, self.flow, now, is_stopping=is_stopping)
        if judgement is None:
            return False
        return self._think(judgement.verdict, judgement.message, _serving_details(judgement), now)

    def serving(self, health: HealthFact, now: datetime, *, is_stopping: bool) -> ServingJudgement | None:
        """Return what the policy of states needs to know of a server that was ready."""
        return judge_serving(health, self.flow, now, is_stopping=is_stopping)

    def time_left(self, reading: LogReading, now: datetime) -> dict[str, Any] | None:
        """Return the seconds until ready as p50 and p90, None without an earlier start to tell."""
        phase_since = self._marks.phase_since if self._marks.phase is reading.phase else None
        left = eta(reading, self.history, now, phase_since=phase_since)
        if left is None:
            return None
        return {
            "remaining_p50_s": round(left.remaining_p50_s, 1),
            "remaining_p90_s": round(left.remaining_p90_s, 1),
            "phases": [
                {
                    "phase": item.phase,
                    "remaining_p50_s": round(item.remaining_p50_s, 1),
                    "remaining_p90_s": round(item.remaining_p90_s, 1),
                }
                for item in left.phases
            ],
            "learned_from_starts": left.start_count,
            "learned_from": left.level,
            "is_overdue": left.is_overdue,
        }

    def record(self) -> dict[str, Any]:
        """Return the marks as they are kept for the time after a restart of the service."""
        return marks_record(self._marks)

    def _think(self, verdict: str, message: str, details: dict[str, Any], now: datetime) -> bool:
        if self.thought is None or self.thought.verdict != verdict:
            self._since_at, self.is_answered = now, False
        details["since_at"] = to_text(self._since_at)
        self.thought = Thought(verdict, message, details, is_hung=verdict == Verdict.SUSPECTED_HUNG)
        return self.kept != verdict


def _start_details(judgement: Judgement) -> dict[str, Any]:
    details = evidence(judgement)
    for name in ("judged_at", "phase_since", "last_mark_at", "hung_at"):
        details[name] = to_text(datetime.fromisoformat(str(details[name])))
    still_since = judgement.still_since
    details["still_since"] = {str(source): to_text(at) for source, at in still_since.items()}
    return details


def _serving_details(judgement: ServingJudgement) -> dict[str, Any]:
    return {
        "verdict": judgement.verdict,
        "message": judgement.message,
        "silent_since": to_text(judgement.silent_since) if judgement.silent_since else None,
    }


def _kept_marks(launch: Launch, now: datetime) -> Marks | None:
    """Return the marks that were kept of a launch; None without any, or when their clock was ahead of this one."""
    marks = marks_from_record(launch.marks, at=now) if launch.marks else None
    return marks if marks is not None and marks.picture.at <= now else None


def _warm_up_limit_s(profile: Profile) -> float | None:
    """Return the engine's limit on its warm-up where it is not the usual one."""
    text = profile.env.get(WARM_UP_VARIABLE, "")
    if text.isdecimal() and int(text) > 0:
        return float(text)
    is_apart = profile.server_args.get("disaggregation-mode") in {"prefill", "decode"}
    return DISAGGREGATED_WARM_UP_S if is_apart else None
