"""What follows an end that nobody asked for: restarts, their pause, and their brake."""

from datetime import UTC, datetime, timedelta

from service.profiles.profile import Policy, RestartLimits
from service.servers.policies import Answer, Incident, decide_policy

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
LIMITS = RestartLimits(pause_s=10, max_restarts=3, window_s=3600, same_diagnosis=2)
DAY_S = 86_400.0


def ended(days_ago: float, code: str | None = "cuda_oom_runtime", served_s: float = 0.0) -> Incident:
    return Incident(NOW - timedelta(days=days_ago), code, served_s)


def answer(*incidents: Incident) -> Answer:
    return decide_policy(Policy.RESTART, LIMITS, incidents, [], NOW).answer


def test_starts_that_end_alike_are_braked_however_long_each_takes() -> None:
    assert answer(ended(0), ended(0.5)) is Answer.BRAKE
    assert answer(ended(0), ended(0.5, "nccl_init_hang")) is Answer.RESTART


def test_a_server_that_served_for_weeks_between_two_ends_is_restarted() -> None:
    assert answer(ended(0, served_s=20 * DAY_S), ended(21)) is Answer.RESTART
    assert answer(ended(0, served_s=20 * DAY_S), ended(21, served_s=30 * DAY_S)) is Answer.RESTART


def test_one_that_serves_for_minutes_is_braked() -> None:
    assert answer(ended(0, served_s=600), ended(0.01, served_s=600)) is Answer.BRAKE


def test_what_the_newest_starts_end_with_counts_though_an_older_one_served_for_long() -> None:
    assert answer(ended(0), ended(0.01, served_s=20 * DAY_S)) is Answer.BRAKE
