"""What counts as late, and what does not."""

from datetime import UTC, datetime, timedelta

import pytest

from service.db.nodes import NodeContact
from service.nodes.contact import Contact
from service.operations.lateness import is_fleet_late, late_jobs, late_watchers
from service.operations.live import Live, LiveJob, LiveNode

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def _ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("contact", "node", "is_late"),
    [
        (Contact.OK, LiveNode(tried_at=_ago(9000), turn_at=_ago(29)), False),
        (Contact.OK, LiveNode(tried_at=_ago(9000), turn_at=_ago(31)), True),
        (Contact.OK, LiveNode(tried_at=_ago(99)), False),
        (Contact.OK, LiveNode(tried_at=_ago(101)), True),
        (Contact.OK, LiveNode(tried_at=_ago(9000), turn_at=_ago(31), is_resting=True), True),
        (Contact.LOST, LiveNode(tried_at=_ago(99), turn_at=_ago(9000)), False),
        (Contact.LOST, LiveNode(tried_at=_ago(101), turn_at=_ago(9000)), True),
        (Contact.LOST, LiveNode(tried_at=_ago(9000), is_resting=True), False),
        (Contact.UNKNOWN, LiveNode(tried_at=_ago(9000), is_resting=True), False),
        (Contact.UNKNOWN, LiveNode(), False),
    ],
)
def test_a_watcher_takes_turns_or_tries(contact: Contact, node: LiveNode, *, is_late: bool) -> None:
    live = Live(nodes={"nd_1": node})
    row = NodeContact("nd_1", "atlas", contact, NOW)
    assert late_watchers(live, [row], NOW, try_limit_s=100) == (["atlas"] if is_late else [])


def test_a_job_is_late_after_two_intervals_and_some_slack() -> None:
    live = Live()
    live.jobs["young"] = LiveJob(every_s=60, is_vital=True, known_at=_ago(239))
    live.jobs["never"] = LiveJob(every_s=60, is_vital=True, known_at=_ago(241))
    live.jobs["well"] = LiveJob(every_s=60, is_vital=True, known_at=_ago(9000), done_at=_ago(239))
    live.jobs["failing"] = LiveJob(every_s=60, is_vital=True, known_at=_ago(9000), done_at=_ago(241))
    live.jobs["upkeep"] = LiveJob(every_s=60, is_vital=False, known_at=_ago(241))
    assert late_jobs(live, NOW, is_vital=True) == ["never", "failing"]
    assert late_jobs(live, NOW, is_vital=False) == ["upkeep"]


def test_the_fleet_watch_shows_that_it_lives() -> None:
    assert not is_fleet_late(Live(), NOW)
    assert not is_fleet_late(Live(fleet_at=_ago(59)), NOW)
    assert is_fleet_late(Live(fleet_at=_ago(61)), NOW)
