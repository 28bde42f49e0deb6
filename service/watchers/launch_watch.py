"""Watches one launch: folds what the node says of it, and decides and records when something has changed."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from service.db.tables import Launch, Node, Operation, Server
from service.errors import Overtaken, RemoteError
from service.logs import EventLog
from service.operations import acceptance, diagnoses, hanging, recording
from service.operations.control import Control
from service.operations.live import LiveLaunch
from service.operations.verdicts import VerdictWatch
from service.profiles.profile import Profile
from service.profiles.speculation import speculation_terms
from service.remote.messages import LaunchFact, LogFact, Watch
from service.remote.observing import MetricsFact
from service.remote.ssh import SshConnection
from service.servers.observation import HealthFact, ListenerOwner, Observation
from service.servers.progress import History
from service.servers.states import SERVING_STATES, Move, State
from service.servers.supervision import Facts, decide
from service.sglang.command import is_log_quiet, probe_host
from service.sglang.failures import Diagnosis
from service.sglang.health import health_deadline_s
from service.sglang.metrics import parse_metrics
from service.sglang.startup_log import StartupLog
from service.watchers.health_probe import HealthProbe

PROGRESS_EVERY_S = 1.0
"""Progress within a phase is kept at most this often; a new phase at once."""
COMPLAINTS_EVERY_S = 5.0
MARKS_EVERY_S = 15.0
CLOCK_STEP_S = 5.0
"""By more than this a clock does not go wrong between two turns: it was set."""
ANSWER_EVERY_S = 15.0
"""How often it is tried to do what follows a suspected hang, until it is done."""
_events = EventLog("watchers")


class LaunchWatch:
    """The watch over the current launch of one server, for as long as the node is connected."""

    def __init__(  # noqa: PLR0913  what it watches, by what, and whom it tells
        self,
        control: Control,
        connection: SshConnection,
        server: Server,
        launch: Launch,
        *,
        history: History,
        utc_offset_s: int,
        submit: Callable[[Operation], None],
    ) -> None:
        self._control = control
        self._profile = Profile.model_validate(launch.recipe)
        self._kept_at: datetime | None = None
        self._kept_phase: str | None = None
        self._kept_bytes = -1
        self._complained_at: datetime | None = None
        self._complaints: tuple[list[diagnoses.Complaint], frozenset[str]] | None = None
        self.server = server
        self.launch = launch
        self._submit = submit
        self._utc_offset_s = utc_offset_s
        self._acting: asyncio.Task[None] | None = None
        self._acted_at: datetime | None = None
        self._marks_at: datetime | None = None
        self.live = control.live.launches.setdefault(launch.id, LiveLaunch(log=self._new_log()))
        if launch.ready_at is not None and not self.live.has_reported:
            self.live.recent_log.end_offset = self.live.kept_offset = launch.log_offset
        self.live.has_reported = False  # what the connection before this one saw may have changed since
        self.live.health = HealthFact()  # and so may what it was answered
        self._watched_from = control.now()
        deadline_s = health_deadline_s(self._profile.env, control.settings.health_deadline_s)
        host = probe_host(self._profile)
        self._probe = HealthProbe(
            control, connection, host=host, port=launch.port, live=self.live, deadline_s=deadline_s
        )
        self._probing: asyncio.Task[None] | None = None
        if self.live.verdicts is None:
            self.live.verdicts = VerdictWatch(
                self._profile, launch, history, now=control.now(), health_deadline_s=deadline_s
            )
        else:
            self.live.verdicts.watched_anew(control.now())
            self._note_clock(control.now())
        self._verdicts = self._probe.verdicts = self.live.verdicts

    def wanted(self) -> Watch:
        """Return what the observer is asked to watch; the log goes on where the last connection left it."""
        return Watch(
            launch_id=self.launch.id,
            port=self.launch.port,
            host=probe_host(self._profile),
            log_offset=self.live.recent_log.end_offset,
        )

    def begin(self, on_answer: Callable[[], None]) -> None:
        """Start asking for its health."""
        self._probe.state = self.server.state
        self._probing = asyncio.create_task(self._probe.run(on_answer), name=f"health {self.launch.id}")

    async def end(self) -> None:
        """Stop asking for its health."""
        for task in (self._probing, self._acting):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def update(self, server: Server, launch: Launch) -> None:
        """Take over what was recorded by others."""
        self.server = server
        self.launch = launch
        self._probe.state = server.state

    def fold(self, fact: LaunchFact | LogFact | MetricsFact) -> None:
        """Fold one fact of the node into the live picture."""
        live = self.live
        if isinstance(fact, LogFact):
            self._fold_log(fact)
            return
        if isinstance(fact, MetricsFact):
            self._verdicts.fold_counters(parse_metrics(fact.text), self._control.now())
            return
        live.observed_at = self._control.now()
        live.process = fact.process or live.process
        live.listener = fact.listener or live.listener
        if live.listener.owner is not ListenerOwner.OURS:
            live.health = HealthFact()  # who listens again is asked again
        live.effort = fact.effort or live.effort
        live.has_reported = live.has_reported or fact.process is not None

    async def turn(self) -> None:
        """Judge and decide on what is known now, and record it; the cleanup that a failure begins is submitted."""
        observation = self.live.observation()
        if observation is None:
            return
        now = self._control.now()
        self._watched_from += self._note_clock(now)
        await self._think(observation, now)
        move = decide(self._facts(now), observation, now)
        if move is None:
            await self._keep_progress(now)
            self._fold_acceptance(now)
            await self._keep_complaints(now)
            return
        diagnosis = None
        if move.after is State.FAILED:
            thought = self._verdicts.thought
            diagnosis = diagnoses.diagnosis_of(
                self.live.log,
                observation.process,
                self.launch.engine_version,
                is_stalled=thought is not None and thought.is_hung,
            )
            move = explained(move, diagnosis)
        try:
            seen = recording.Seen(observation, diagnosis)
            begun = await recording.record_move(self._control, self.server, move, seen, at=now)
        except Overtaken:
            self._control.changes.publish(self.server.id, self.server.node_id)
            return
        _events.info(
            "server_moved",
            server_id=self.server.id,
            launch_id=self.launch.id,
            before=self.server.state,
            after=move.after,
            reason=move.reason,
        )
        self._probe.state = move.after
        if begun is not None:
            self._submit(begun)

    def _note_clock(self, now: datetime) -> timedelta:
        """Measure anew what was measured by a clock that was set since: nothing moved or stood still for that.

        Returns by how much it was set.
        """
        live, passed_s = self.live, self._control.monotonic_s()
        step_s = 0.0
        if live.clock is not None and live.verdicts is not None:
            step_s = (now - live.clock[0]).total_seconds() - (passed_s - live.clock[1])
        live.clock = now, passed_s
        if live.verdicts is None or abs(step_s) <= CLOCK_STEP_S:
            return timedelta()
        _events.warning("clock_was_set", launch_id=self.launch.id, step_s=round(step_s, 1))
        live.verdicts.begin_anew(now)
        live.health = HealthFact()
        live.clock_set_by += timedelta(seconds=step_s)
        return timedelta(seconds=step_s)

    async def _think(self, observation: Observation, now: datetime) -> None:
        """Judge the launch and keep what changed; what follows a suspected hang is tried until it is done."""
        verdicts = self._verdicts
        if self.server.state is State.STARTING:
            heard_at = min(now, self._control.live.node(self.server.node_id).heard_at or observation.at)
            verdicts.fold(observation, heard_at)
            is_another = verdicts.think_of_start(now, heard_at)
        elif self.server.state in SERVING_STATES:
            is_another = verdicts.think_of_serving(self.live.health, now, is_stopping=self._is_draining())
        else:
            return
        if is_another:
            await recording.record_verdict(self._control, self.server, self.launch.id, verdicts)
            self._marks_at = now
        elif self.server.state is State.STARTING and _is_due(self._marks_at, now, MARKS_EVERY_S):
            self._marks_at = now
            await recording.record_marks(self._control, self.launch.id, verdicts)
        self._answer_hang(now)

    def _answer_hang(self, now: datetime) -> None:
        is_acting = self._acting is not None and not self._acting.done()
        if self.server.state is not State.STARTING or is_acting or not self._verdicts.is_answer_due(now):
            return
        if _is_due(self._acted_at, now, ANSWER_EVERY_S):
            self._acted_at = now
            self._acting = asyncio.create_task(self._act_on_hang(), name=f"hang {self.launch.id}")

    async def _act_on_hang(self) -> None:
        try:
            async with self._control.database.read() as session:
                node = await session.get_one(Node, self.server.node_id)
            begun = await hanging.act(self._control, self.server, self.launch, node)
        except RemoteError as error:
            _events.warning("hang_not_acted_on", launch_id=self.launch.id, code=error.code, detail=error.detail)
            return
        except Exception:  # noqa: BLE001  the watch goes on; what failed is logged with its traceback
            _events.failure("hang_not_acted_on", launch_id=self.launch.id)
            return
        self._verdicts.is_answered = True
        if begun is not None:
            self._submit(begun)

    def _is_draining(self) -> bool:
        return self.live.log.reading.is_stopping

    def _new_log(self) -> StartupLog:
        interval = speculation_terms(self._profile).decode_log_interval
        return StartupLog(utc_offset_s=self._utc_offset_s, decode_log_interval=interval)

    def _fold_log(self, fact: LogFact) -> None:
        """Read on; a log that was cut goes on where the start is, and its lines are counted on."""
        live = self.live
        if fact.offset < live.recent_log.end_offset:
            live.log = live.log.feed(b"\n", self._control.now())
            live.recent_log.chunks.clear()
        batch_count = live.log.batch_count
        live.log = live.log.feed(fact.data, self._control.now())
        if live.log.batch_count > batch_count:
            self._verdicts.note_batches(self._control.now())
        live.recent_log.append(fact.offset, fact.data)
        self._control.changes.publish(f"log {self.launch.id}")

    def _facts(self, now: datetime) -> Facts:
        return Facts(
            state=self.server.state,
            created_at=self.launch.created_at + self.live.clock_set_by,
            started_at=self.launch.started_at,
            is_log_quiet=self.launch.is_adopted or is_log_quiet(self._profile),
            start_limit_s=self._profile.limits.start_s,
            serving=self._verdicts.serving(self.live.health, now, is_stopping=self._is_draining()),
            watched_from=self._watched_from,
        )

    async def _keep_complaints(self, now: datetime) -> None:
        """Look every few seconds at what a serving engine complains of; what is the same is not written again."""
        if self.server.state not in SERVING_STATES or not _is_due(self._complained_at, now, COMPLAINTS_EVERY_S):
            return
        self._complained_at = now
        speculation, version = self._verdicts.acceptance, self.launch.engine_version
        complaints = diagnoses.complaints_of_log(self.live.log, version) + acceptance.complaints(speculation, version)
        undecided = acceptance.undecided(speculation)
        if (complaints, undecided) != self._complaints:
            self._complaints = complaints, undecided
            await recording.record_complaints(
                self._control, self.server, self.launch.id, complaints, undecided=undecided, at=now
            )

    def _fold_acceptance(self, now: datetime) -> None:
        """Fold in what the decode lines say of speculation."""
        if self.server.state in SERVING_STATES:
            self._verdicts.acceptance.fold_log(self.live.log.acceptance, now)

    async def _keep_progress(self, now: datetime) -> None:
        """Keep how far the log of a start has come: each phase at once, and the progress in it."""
        reading, read_bytes = self.live.log.reading, self.live.recent_log.end_offset
        if self.server.state is not State.STARTING or read_bytes == self._kept_bytes:
            return
        if reading.phase == self._kept_phase and not _is_due(self._kept_at, now, PROGRESS_EVERY_S):
            return
        self._kept_at, self._kept_phase, self._kept_bytes = now, reading.phase, read_bytes
        await recording.record_progress(self._control, self.launch.id, reading, log_offset=read_bytes)
        self._control.changes.publish(self.server.id)


def _is_due(last_at: datetime | None, now: datetime, every_s: float) -> bool:
    return last_at is None or (now - last_at).total_seconds() >= every_s


def explained(move: Move, diagnosis: Diagnosis | None) -> Move:
    """Return a failure whose message begins with its cause, where the log proves one."""
    if diagnosis is None:
        return move
    evidence = {**move.evidence, "diagnosis": diagnosis.code.value}
    return replace(move, message=f"{diagnosis.summary} ({move.message})", evidence=evidence)
