"""One repeat of one point of a run: its client is started on the node, followed to its end, and its file is read."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from service.benchmarks.importing import Mapped, ResultFileRejected
from service.benchmarks.importing.mapped import said
from service.benchmarks.own_runs import RepeatContext, Target, read_own_result, run_command
from service.benchmarks.results import HostProvenance, ServerProvenance
from service.benchmarks.run_order import Step
from service.benchmarks.samples import Sample, energy_of, other_traffic, power_limit_w, read_samples, sample_documents
from service.benchmarks.workload import NodeFile, Workload
from service.db.benchmark_files import RawFile
from service.db.benchmarks import MeasuredRepeat
from service.operations import secrets
from service.operations.control import Control
from service.operations.provenance import served_model_name
from service.profiles.profile import Profile
from service.remote.bench_clients import RESULT_FILE, ClientFile, ClientLook
from service.remote.bench_sampling import SamplingOrder
from service.remote.messages import LaunchOrder, SignalStep
from service.remote.node import NodeSession
from service.remote.observing import MetricsWish
from service.servers.observation import ProcessState
from service.sglang.bench_client import STAGE_MARKS, ClientCommand, ClientProgress, client_key, read_progress
from service.sglang.bench_results import SECRET_FIELDS
from service.sglang.command import probe_host
from service.sglang.metrics import METRIC_NAMES, METRICS_PATH

FIRST_LOOK_S, LONGEST_LOOK_S = 0.3, 3.0
"""The pause between two looks at a client: a tenth of its age, within these."""
SAMPLE_EVERY_S = 2.0
MOST_SAMPLES = 1800
LOG_KEPT = 512 * 1024
LOG_SHOWN_LINES = 8
LOG_SHOWN = 1500
TERM_GRACE_S = 3.0
_ALIVE = frozenset({ProcessState.PENDING, ProcessState.RUNNING})


class RepeatFailed(Exception):
    """A repeat gave no result: `code`, `detail` and `remedy` say why. It is the problem of its run."""

    def __init__(self, code: str, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.remedy = remedy

    @property
    def problem(self) -> dict[str, object]:
        """Return it as runs and operations keep it."""
        return {"code": self.code, "detail": self.detail, "remedy": self.remedy}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured: the server by its launch, and the node it is on, as they were when the run began."""

    created_at: datetime
    server_name: str
    port: int
    gpu_uuids: tuple[str, ...]
    recipe: Profile
    server: ServerProvenance
    host: HostProvenance


@dataclass(frozen=True, slots=True)
class Repeat:
    """One step of one run."""

    run_id: str
    workload: Workload
    step: Step

    @property
    def client_id(self) -> str:
        """Return the id of its client on the node: always the same, so that it is started once."""
        return f"{self.run_id}_{self.step.point.index}_{self.step.repeat_index}"


Report = Callable[[ClientProgress], Awaitable[None]]


async def measure(
    control: Control, remote: NodeSession, subject: Subject, repeat: Repeat, report: Report
) -> MeasuredRepeat:
    """Start the client unless it was started before, follow it, and return what it measured.

    Repeating it after any fault of the way to the node is harmless. Raises RepeatFailed when there is no result,
    SecretUnavailable, and RemoteError.
    """
    given = secrets.resolve(subject.recipe.secret_args)
    key = client_key(given)
    if repeat.workload.flush_cache and not key.can_flush:
        repeat = replace(repeat, workload=repeat.workload.model_copy(update={"flush_cache": False}))
    digest = await _dataset_digest(remote, repeat.workload)
    command = _command(subject, repeat)
    hidden = (*given.values(), *secrets.resolve(subject.recipe.secret_env).values())
    await remote.stage_and_start(_order(subject, repeat, command, key=key.value, hidden=hidden))
    look, log = await _follow(control, remote, repeat, report)
    outcome = await remote.read_client_result(repeat.client_id, hidden_fields=SECRET_FIELDS)
    if outcome.file is None:
        raise _left_no_file(look, log)
    samples = await asyncio.to_thread(read_samples, outcome.samples)
    context = RepeatContext(
        point=repeat.step.point,
        repeat_index=repeat.step.repeat_index,
        run_id=repeat.run_id,
        started_at=look.started_at or control.now(),
        ended_at=look.ended_at or control.now(),
        argv=command.argv,
        server=subject.server,
        host=subject.host.model_copy(update={"power_limit_w": power_limit_w(samples)}),
        dataset_sha256=digest,
    )
    try:
        mapped = await asyncio.to_thread(read_own_result, outcome.file.content, repeat.workload, context)
    except ResultFileRejected as error:
        detail = f"what the client wrote cannot be read: {error.detail}"
        raise RepeatFailed("result_file_rejected", detail, "Read the run's log, and run it again.") from error
    notes = [*command.left_out, *_notes(look, outcome.file, samples, can_flush=key.can_flush)]
    return MeasuredRepeat(
        point_index=repeat.step.point.index,
        repeat_index=repeat.step.repeat_index,
        mapped=_completed(mapped, outcome.file, samples, subject, notes),
        raw=RawFile(outcome.file.content, outcome.file.sha256, is_redacted=True),
        samples=sample_documents(samples),
    )


async def end_client(remote: NodeSession, repeat: Repeat) -> None:
    """Make sure that a client has ended, or never starts. The server sees its requests go and aborts them."""
    await remote.signal(repeat.client_id, SignalStep.KILL)


async def _dataset_digest(remote: NodeSession, workload: Workload) -> str | None:
    """Return the hash of the file of prompts; RepeatFailed when it is not the one that the workload names."""
    if not isinstance(workload.dataset, NodeFile):
        return None
    digest = await remote.hash_file(workload.dataset.path)
    if workload.dataset.sha256 not in {None, digest.sha256}:
        detail = f"{workload.dataset.path} has the SHA-256 {digest.sha256}, not {workload.dataset.sha256}"
        raise RepeatFailed("dataset_mismatch", detail, "Put the right file on the node, or define another benchmark.")
    return digest.sha256


def _command(subject: Subject, repeat: Repeat) -> ClientCommand:
    recipe = subject.recipe
    tokenizer = recipe.server_args.get("tokenizer-path")
    target = Target(
        host=probe_host(recipe),
        port=subject.port,
        python=recipe.python,
        engine_version=subject.server.engine_version,
        model_path=recipe.model_path,
        served_model_name=served_model_name(recipe),
        tokenizer_path=tokenizer if isinstance(tokenizer, str) and tokenizer else None,
    )
    step = repeat.step
    return run_command(
        repeat.workload,
        step.point,
        target,
        repeat_index=step.repeat_index,
        output_file=RESULT_FILE,
        tag=repeat.client_id,
    )


def _order(
    subject: Subject, repeat: Repeat, command: ClientCommand, *, key: str | None, hidden: tuple[str, ...]
) -> LaunchOrder:
    every_s = max(SAMPLE_EVERY_S, repeat.workload.timeout_s / MOST_SAMPLES)
    sampling = SamplingOrder(
        client_id=repeat.client_id,
        host=probe_host(subject.recipe),
        port=subject.port,
        gpu_uuids=subject.gpu_uuids,
        marks=STAGE_MARKS,
        metrics=MetricsWish(METRICS_PATH, METRIC_NAMES, every_s=every_s),
    )
    return LaunchOrder(
        launch_id=repeat.client_id,
        server=subject.server_name,
        port=subject.port,
        argv=command.argv,
        created_at=subject.created_at,
        environment={
            **subject.recipe.env,
            **command.environment,
            **({"OPENAI_API_KEY": key} if key is not None else {}),
        },
        secrets=hidden,
        beside=sampling.program(),
    )


async def _follow(control: Control, remote: NodeSession, repeat: Repeat, report: Report) -> tuple[ClientLook, str]:
    """Look at a client until it has ended, and end it when its time is up; returns the last look and its log."""
    offset, log = 0, ""
    told: ClientProgress | None = None
    while True:
        look = await remote.look_at_client(repeat.client_id, offset=offset)
        offset = look.log.next_offset
        log = _shortened(log + look.log.data.decode("utf-8", "replace"))
        progress = read_progress(log)
        if progress != told:
            told = progress
            await report(progress)
        has_more = bool(look.log.data) and offset < look.log.size
        if look.state not in _ALIVE and not has_more:
            return look, log
        age_s = look.age_s or 0.0
        if age_s > repeat.workload.timeout_s:
            await _end_late(control, remote, repeat)
            detail = f"the client did not end within {repeat.workload.timeout_s} s: {_described(progress)}"
            raise RepeatFailed("client_timed_out", detail, "Give the workload fewer prompts or a longer timeout_s.")
        if not has_more:
            await asyncio.sleep(min(max(age_s / 10, FIRST_LOOK_S), LONGEST_LOOK_S))


async def _end_late(control: Control, remote: NodeSession, repeat: Repeat) -> None:
    await remote.signal(repeat.client_id, SignalStep.TERM)
    deadline = control.now() + timedelta(seconds=TERM_GRACE_S)
    while control.now() < deadline:
        if (await remote.look_at_client(repeat.client_id, offset=0, limit_bytes=1)).state not in _ALIVE:
            break
        await asyncio.sleep(FIRST_LOOK_S)
    await end_client(remote, repeat)


def _shortened(log: str) -> str:
    """Return a log without its middle when it is long: its beginning says how far it came, its end how it goes."""
    return log if len(log) <= LOG_KEPT else log[: LOG_KEPT // 8] + log[-LOG_KEPT * 3 // 4 :]


def _left_no_file(look: ClientLook, log: str) -> RepeatFailed:
    match look.state:
        case ProcessState.EXITED:
            ended = f"ended with code {look.exit_code}"
        case ProcessState.REBOOTED:
            ended = "was ended by a reboot of the node"
        case ProcessState.ABSENT:
            ended = "was ended before it began"
        case _:
            ended = "was lost: it is gone and nobody saw it end"
    lines = [line.rstrip() for line in log.replace("\r", "\n").split("\n") if line.strip()]
    tail = "\n".join(lines[-LOG_SHOWN_LINES:])[-LOG_SHOWN:]
    detail = f"the client {ended} and left no result" + (f"; its log ends with:\n{tail}" if tail else "")
    return RepeatFailed("client_failed", detail, "Read the run's log for the cause, mend it, and run it again.")


def _notes(look: ClientLook, file: ClientFile, samples: tuple[Sample, ...], *, can_flush: bool) -> Iterator[str]:
    if look.exit_code not in {0, None}:
        yield f"the client wrote its result and then ended with code {look.exit_code}"
    if look.state is not ProcessState.EXITED:
        yield f"the client's end was not seen: {look.state}"
    if "itls" in file.left_out:
        yield "the gaps between tokens were too many to keep: the client's own file on the node has them"
    if not can_flush:
        yield "the cache was not flushed: the server wants another key for that than for requests"
    traffic = other_traffic(samples)
    if traffic:
        yield f"up to {traffic:g} other requests ran before the client sent any: the numbers are not of it alone"


def _completed(
    mapped: Mapped, file: ClientFile, samples: tuple[Sample, ...], subject: Subject, notes: list[str]
) -> Mapped:
    """Return a result with power, the hash of the client's own file, and more notes."""
    result = mapped.result
    energy = energy_of(
        samples,
        gpu_uuids=subject.gpu_uuids,
        duration_s=result.totals.duration_s,
        output_tokens=result.totals.output_tokens,
    )
    client = result.client.model_copy(update={"raw_sha256": file.sha256})
    filled = result.model_copy(update={"energy": energy, "client": client})
    return Mapped(filled, mapped.unmapped, said([*mapped.notes, *notes]))


def _described(progress: ClientProgress) -> str:
    if progress.total is None:
        return f"it was {progress.stage.replace('_', ' ')}"
    return f"{progress.done} of {progress.total} requests had ended"
