"""What one launch is thought of, from all that is seen of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from service.db.tables import Launch
from service.operations.verdicts import VerdictWatch
from service.profiles.profile import Profile
from service.servers.observation import (
    EffortFact,
    HealthFact,
    ListenerFact,
    ListenerOwner,
    Observation,
    ProcessFact,
    ProcessState,
)
from service.servers.progress import History, PhaseSample
from service.sglang.health import HealthAnswer
from service.sglang.metrics import EngineCounters
from service.sglang.phases import Phase
from service.sglang.startup_log import StartupLog

BEGAN_AT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
PROFILE = Profile(python="/opt/python", model_path="/m", gpu_count=0)
READY_LOG = StartupLog().feed(b"[2026-11-29 12:00:00] The server is fired up and ready to roll!\n", BEGAN_AT).reading


def new_launch() -> Launch:
    return Launch(
        id="ln_1", server_id="sv_1", node_id="nd_1", number=1, profile_id="pr_1", profile_version=1, recipe={},
        argv=[], environment={}, port=1, gpus=[], model_path="/m", created_at=BEGAN_AT, timeline=[],
    )  # fmt: skip


def seen(at: datetime) -> Observation:
    return Observation(
        at=at,
        process=ProcessFact(ProcessState.RUNNING, pid=7, member_count=3),
        listener=ListenerFact(ListenerOwner.OURS, 7),
        effort=EffortFact(cpu_ticks=1, read_bytes=0, rss_mib=10, gpu_memory_mib=70_000),
        health=HealthFact(HealthAnswer.UNAVAILABLE, at, at, 503, 9),
        log=READY_LOG,
    )


def test_a_start_whose_tokens_move_is_never_called_hung() -> None:
    """Its first long prefills keep /health at 503: the log has nothing more to say, and the counters have."""
    watch = VerdictWatch(PROFILE, new_launch(), History(), now=BEGAN_AT)
    told = set()
    for seconds in range(0, 1200, 5):
        now = BEGAN_AT + timedelta(seconds=seconds)
        watch.fold_counters(EngineCounters(work_tokens=8192.0 * (seconds // 30)), now)
        watch.fold(seen(now), now)
        watch.think_of_start(now, now)
        assert watch.thought is not None
        told.add(watch.thought.verdict)
    assert "suspected_hung" not in told


WARMING_LOG = (
    StartupLog()
    .feed(
        b"[2026-11-29 12:00:00] server_args=ServerArgs(port=1)\n"
        b"[2026-11-29 12:00:00] INFO:     Uvicorn running on http://127.0.0.1:1 (Press CTRL+C to quit)\n",
        BEGAN_AT,
    )
    .reading
)


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_a_disaggregated_server_has_as_long_to_warm_up_as_the_engine_gives_it(mode: str) -> None:
    profile = PROFILE.model_copy(update={"server_args": {"disaggregation-mode": mode}})
    watch = VerdictWatch(profile, new_launch(), History(), now=BEGAN_AT)
    for seconds in (0, 1790):
        now = BEGAN_AT + timedelta(seconds=seconds)
        watch.fold(replace(seen(now), log=WARMING_LOG), now)
        watch.think_of_start(now, now)
    assert watch.thought is not None
    assert watch.thought.verdict == "slow"


@pytest.mark.parametrize("skew_s", [0, -600, 600])
def test_what_is_left_does_not_depend_on_the_clock_of_the_node(skew_s: int) -> None:
    """Its clock goes wrong by minutes, or its log is in another zone: the phase began when it was seen to begin."""
    stays = (PhaseSample("ln_0", Phase.LOADING_WEIGHTS, 100, 64), PhaseSample("ln_0", Phase.WARMING_UP, 20))
    watch = VerdictWatch(PROFILE, new_launch(), History(profile_on_node=stays), now=BEGAN_AT)
    watch.fold(replace(seen(BEGAN_AT), log=StartupLog().reading), BEGAN_AT)
    at = BEGAN_AT + timedelta(seconds=10)
    line = f"[{at + timedelta(seconds=skew_s):%Y-%m-%d %H:%M:%S} TP0] Load weight begin. avail mem=78.58 GB\n"
    log = StartupLog().feed(line.encode(), at).reading
    watch.fold(replace(seen(at), log=log), at)
    left = watch.time_left(log, at + timedelta(seconds=40))
    assert left is not None
    assert (left["is_overdue"], left["remaining_p50_s"]) == (False, 80)
