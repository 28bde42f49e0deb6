"""How a node's answers become values: the border where plain JSON is checked, once."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from service.clock import from_epoch
from service.errors import RemoteCommandFailed
from service.nodes.inventory import GpuHolder
from service.remote.messages import (
    Adopted,
    Beat,
    FoundEngine,
    FoundLaunch,
    GpuHoldersFact,
    HangEvidence,
    Hello,
    Launcher,
    LaunchFact,
    LeftoverGpu,
    LeftoverProcess,
    Leftovers,
    LogFact,
    LogSlice,
    NodeFact,
    ProcessStack,
    Refusal,
    Signalled,
    Started,
)
from service.servers.observation import EffortFact, ListenerFact, ListenerOwner, ProcessFact, ProcessState

Value = TypeVar("Value")
Plain = Mapping[str, Any]


def read(parse: Callable[[Plain], Value], answer: Any) -> Value:
    """Return what `parse` makes of an answer; RemoteCommandFailed when it has another shape than agreed."""
    try:
        return parse(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RemoteCommandFailed(f"the node's answer cannot be read: {type(error).__name__} {error}") from error


def mapping(answer: Any) -> Plain:
    """Return the answer if it is a mapping."""
    if not isinstance(answer, dict):
        raise TypeError(f"{type(answer).__name__} where a mapping was expected")
    return answer


def result(verb: str, line: bytes) -> Plain:
    """Return what a verb answered; RemoteCommandFailed when the node refused the order or failed at it."""
    answer = mapping(json.loads(line))
    if "refused" in answer:
        raise RemoteCommandFailed(str(answer["detail"]), refusal=Refusal(answer["refused"]), verb=verb)
    if "failed" in answer:
        raise RemoteCommandFailed(f"{verb} failed on the node: {answer['failed']}", verb=verb)
    return mapping(answer["result"])


def started(answer: Plain) -> Started:
    """Return what came of `stage_and_start`."""
    return Started(
        launcher=Launcher(answer["launcher"]),
        pid=_whole(answer["pid"]),
        start_ticks=_whole(answer["start_ticks"]),
        boot_id=str(answer["boot_id"]),
        already_started=bool(answer["already_started"]),
    )


def signalled(answer: Plain) -> Signalled:
    """Return what came of `signal`."""
    return Signalled(tuple(int(pid) for pid in answer["pids"]), process(answer["process"]))


def leftovers(answer: Plain) -> Leftovers:
    """Return what `verify` found."""
    return Leftovers(
        processes=tuple(LeftoverProcess(int(row["pid"]), str(row["command"])) for row in answer["processes"]),
        listener=listener(answer["listener"]),
        gpu=tuple(
            LeftoverGpu(str(row["uuid"]), _whole(row["pid"]), _whole(row["memory_mib"])) for row in answer["gpu"]
        ),
        shm=_texts(answer["shm"]),
        is_clear=answer["is_clear"] is True,
        shm_removed=_texts(answer["shm_removed"]),
        shm_unproven=_texts(answer["shm_unproven"]),
        gpu_error=_text(answer["gpu_error"]),
    )


def log_slice(answer: Plain) -> LogSlice:
    """Return what `read_log` read."""
    return LogSlice(
        offset=int(answer["offset"]),
        data=base64.b64decode(answer["b64"], validate=True),
        next_offset=int(answer["next_offset"]),
        size=int(answer["size"]),
    )


def found_launches(answer: Plain) -> tuple[FoundLaunch, ...]:
    """Return the launch directories that `list_launches` found."""
    return tuple(
        FoundLaunch(
            launch_id=str(row["launch"]),
            server=_text(row["server"]),
            port=_whole(row["port"]),
            created_at=_written_instant(row["created_at"]),
            launcher=None if row["launcher"] is None else Launcher(row["launcher"]),
            boot_id=_text(row["boot_id"]),
            start_ticks=_whole(row["process"]["start_ticks"]),
            process=process(row["process"]),
            log_bytes=int(row["log_bytes"]),
        )
        for row in answer["launches"]
    )


def is_removed(answer: Plain) -> bool:
    """Return whether there was something to remove."""
    return answer["is_removed"] is True


def engine_version(answer: Plain) -> str | None:
    """Return the engine's version, None when that Python has none."""
    return _text(answer["version"])


def hang_evidence(answer: Plain) -> HangEvidence:
    """Return what `hang_evidence` collected."""
    return HangEvidence(
        at=from_epoch(answer["at"]),
        stacks=tuple(
            ProcessStack(
                pid=int(row["pid"]),
                command=str(row["command"]),
                state=str(row["state"]),
                wchan=_text(row["wchan"]),
                text=_text(row["text"]),
                error=_text(row["error"]),
                kernel_stack=_text(row["kernel_stack"]),
            )
            for row in answer["stacks"]
        ),
        nvidia_smi=_text(answer["nvidia_smi"]),
        log_tail=str(answer["log_tail"]),
    )


def cached_share(answer: Plain) -> float | None:
    """Return the share of the weights in the page cache, None when it is not known."""
    share = answer["share"]
    return None if share is None else min(max(float(share), 0.0), 1.0)


def found_engines(answer: Plain) -> tuple[FoundEngine, ...]:
    """Return the servers that `find_engines` found."""
    return tuple(
        FoundEngine(
            pid=int(row["pid"]),
            start_ticks=int(row["start_ticks"]),
            user=_text(row["user"]),
            command=_texts(row["command"]),
            python=_text(row["python"]),
            model_path=_text(row["model_path"]),
            port=_whole(row["port"]),
            host=str(row["host"]),
            gpu_uuids=_texts(row["gpu_uuids"]),
            launch_id=_text(row["launch"]),
            started_at=from_epoch(row["started_at"]),
            log_path=_text(row["log_path"]),
            member_pids=tuple(int(pid) for pid in row["member_pids"]),
            gpu_error=_text(row["gpu_error"]),
        )
        for row in answer["engines"]
    )


def adopted(answer: Plain) -> Adopted:
    """Return what came of `adopt`."""
    return Adopted(_text(answer["log_path"]), str(answer["boot_id"]))


def fact(line: Any) -> NodeFact:
    """Return one line of the observer as a value; ValueError when it is none."""
    try:
        plain = mapping(line)
        return _FACTS[plain["k"]](plain)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__} {error} in a fact") from error


def process(plain: Plain) -> ProcessFact:
    """Return the state of a main process."""
    return ProcessFact(
        state=ProcessState(plain["state"]),
        pid=_whole(plain["pid"]),
        exit_code=_whole(plain["exit_code"]),
        ended_at=_instant(plain["ended_at"]),
        member_count=int(plain["members"]),
    )


def listener(plain: Plain) -> ListenerFact:
    """Return who listens on the port."""
    return ListenerFact(ListenerOwner(plain["owner"]), _whole(plain["pid"]), _text(plain["command"]))


def holder(row: Plain) -> tuple[str, GpuHolder]:
    """Return a GPU's uuid and one of its holders."""
    return str(row["uuid"]), GpuHolder(
        pid=int(row["pid"]),
        memory_mib=_whole(row["memory_mib"]),
        command=str(row["command"]),
        user=_text(row["user"]),
        launch_id=_text(row["launch"]),
    )


def _effort(plain: Plain) -> EffortFact:
    return EffortFact(
        cpu_ticks=int(plain["cpu_ticks"]),
        read_bytes=_whole(plain["read_bytes"]),
        rss_mib=int(plain["rss_mib"]),
        gpu_memory_mib=_whole(plain["gpu_memory_mib"]),
        log_bytes=int(plain["log_bytes"]),
    )


def _hello(plain: Plain) -> Hello:
    return Hello(str(plain["boot_id"]), from_epoch(plain["at"]), int(plain["pid"]))


def _launch_fact(plain: Plain) -> LaunchFact:
    return LaunchFact(
        launch_id=str(plain["launch"]),
        at=from_epoch(plain["at"]),
        process=process(plain["process"]) if "process" in plain else None,
        listener=listener(plain["listener"]) if "listener" in plain else None,
        effort=_effort(plain["effort"]) if "effort" in plain else None,
    )


def _log_fact(plain: Plain) -> LogFact:
    return LogFact(str(plain["launch"]), int(plain["offset"]), base64.b64decode(plain["b64"], validate=True))


def _gpu_holders(plain: Plain) -> GpuHoldersFact:
    return GpuHoldersFact(
        from_epoch(plain["at"]), tuple(holder(row) for row in plain["holders"]), _text(plain["error"])
    )


def _beat(plain: Plain) -> Beat:
    return Beat(from_epoch(plain["at"]), _whole(plain.get("disk_free_mib")), _whole(plain.get("shm_free_mib")))


_FACTS: Mapping[str, Callable[[Plain], NodeFact]] = {
    "hello": _hello,
    "fact": _launch_fact,
    "log": _log_fact,
    "gpus": _gpu_holders,
    "beat": _beat,
}


def _written_instant(text: Any) -> datetime | None:
    """Return an instant from a file on the node, None when somebody has garbled it."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _instant(epoch_s: float | None) -> datetime | None:
    return None if epoch_s is None else from_epoch(epoch_s)
