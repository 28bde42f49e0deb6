"""Who watches the watchers: what was not done for so long that somebody must be told."""

from collections.abc import Iterable
from datetime import datetime

from service.db.nodes import NodeContact
from service.nodes.contact import Contact
from service.operations.live import Live, LiveJob, LiveNode
from service.settings import Settings

TURN_TOO_OLD_S = 30
"""A watcher takes a turn each second."""
QUEUE_S = 120
"""So long a first attempt may queue, when a thousand nodes are met at once."""
FLEET_TOO_OLD_S = 60
"""The fleet watch gives a sign every quarter of a minute."""
JOB_SLACK_S = 120
"""So much longer than twice its interval a job may take."""
FLEET_WATCH = "fleet watch"


def late_names(settings: Settings, live: Live, nodes: Iterable[NodeContact], now: datetime) -> list[str]:
    """Return what the fleet is not watched without: late nodes by name, the fleet watch, late vital jobs."""
    try_limit_s = settings.connect_deadline_s + 2 * settings.retry_max_s + QUEUE_S
    return [
        *late_watchers(live, nodes, now, try_limit_s=try_limit_s),
        *([FLEET_WATCH] if is_fleet_late(live, now) else []),
        *late_jobs(live, now, is_vital=True),
    ]


def late_watchers(live: Live, nodes: Iterable[NodeContact], now: datetime, *, try_limit_s: float) -> list[str]:
    """Return the names of nodes whose watcher does not watch.

    In contact it takes turns; without contact it tries to make it, each time within `try_limit_s`, unless it waits for
    somebody to act. A node that no watcher has begun with is judged by the fleet watch.
    """
    return [node.name for node in nodes if _is_late(live.node(node.id), node.contact, now, try_limit_s)]


def late_jobs(live: Live, now: datetime, *, is_vital: bool) -> list[str]:
    """Return the names of jobs that were not done well for more than twice their interval."""
    return [name for name, job in live.jobs.items() if job.is_vital is is_vital and _is_overdue(job, now)]


def is_fleet_late(live: Live, now: datetime) -> bool:
    """Tell whether nobody sees any more to it that each node has a watcher."""
    return live.fleet_at is not None and (now - live.fleet_at).total_seconds() > FLEET_TOO_OLD_S


def age_s(job: LiveJob, now: datetime) -> float:
    """Return the seconds since a job was last done well, or since it is known."""
    return (now - (job.done_at or job.known_at)).total_seconds()


def _is_overdue(job: LiveJob, now: datetime) -> bool:
    return age_s(job, now) > 2 * job.every_s + JOB_SLACK_S


def _is_late(node: LiveNode, contact: Contact, now: datetime, try_limit_s: float) -> bool:
    if node.tried_at is None or (node.is_resting and contact is not Contact.OK):
        return False
    if contact is Contact.OK and node.turn_at is not None:
        return (now - node.turn_at).total_seconds() > TURN_TOO_OLD_S
    return (now - node.tried_at).total_seconds() > try_limit_s
