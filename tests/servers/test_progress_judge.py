"""The verdict: the scenarios it exists for, read from the engine's own words, and what must hold of any start."""

import json
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.servers.observation import (
    EffortFact,
    HealthFact,
    ListenerFact,
    ListenerOwner,
    Observation,
    ProcessFact,
    ProcessState,
)
from service.servers.progress import (
    DeadlineSource,
    History,
    Judgement,
    Marks,
    MarkSource,
    PhaseSample,
    Verdict,
    evidence,
    expected_from,
    judge,
)
from service.sglang.health import HealthAnswer
from service.sglang.phases import Phase
from service.sglang.startup_log import StartupLog
from tests.servers.progress_matrix import deadline_of
from tests.servers.progress_streams import BEGAN_AT, at, frozen_start, moving_start

SHIPPED = expected_from(History())
ORDER = list(Verdict)
UP_TO_WEIGHTS = """\
[2026-11-29 02:00:01] server_args={'model_path': '/models/big', 'port': 30000, 'tp_size': 8, 'nnodes': 1}
[2026-11-29 02:00:20 TP0] Init parallel begin.
[2026-11-29 02:00:23 TP0] Load weight begin. avail mem=94.2 GB
[2026-11-29 02:01:36 TP0] Load weight end. elapsed=73.0 s, type=DeepseekV3ForCausalLM, avail mem=18.1 GB
[2026-11-29 02:01:38 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 81920, KV size: 9.1 GB
"""
CAPTURE = "[2026-11-29 02:02:00 TP0] Capture target verify CUDA graph begin. backend=full, avail mem=8.1 GB\n"
BIND = """\
[2026-11-29 02:02:10] INFO:     Started server process [4711]
[2026-11-29 02:02:10] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)
"""
ACCESS = '[2026-11-29 02:02:11] INFO:     127.0.0.1:40522 - "GET /health HTTP/1.1" 503 Service Unavailable\n'


class Scene:
    """One start as a watcher folds it: the log's words as they come, and levels that the test moves."""

    def __init__(self, *, began_s: float = 0) -> None:
        self.log = StartupLog()
        self.marks = Marks.begin(at(began_s))
        self.cpu_ticks = 100
        self.members = 10
        self.is_bound = False

    def look(self, seconds: float, text: str = "") -> None:
        if text:
            self.log = self.log.feed(text.encode(), at(seconds))
        answer = HealthAnswer.UNAVAILABLE if self.is_bound else HealthAnswer.UNASKED
        observation = Observation(
            at=at(seconds),
            process=ProcessFact(ProcessState.RUNNING, pid=4711, member_count=self.members),
            listener=ListenerFact(ListenerOwner.OURS if self.is_bound else ListenerOwner.NONE),
            effort=EffortFact(cpu_ticks=self.cpu_ticks, read_bytes=2**40, rss_mib=9_000, gpu_memory_mib=608_000),
            health=HealthFact(answer),
            log=self.log.reading,
        )
        self.marks = self.marks.fold(observation)

    def judged(self, seconds: float) -> Judgement:
        return judge(self.marks, SHIPPED, at(seconds))


def graph(done: int) -> str:
    percent = done * 100 // 52
    return (
        f"\rCapturing batches (bs={512 - done} avail_mem=7.9 GB):  {percent}%|##  | {done}/52 [00:05<01:00,  1.2s/it]"
    )


def test_scenario_b_a_still_log_and_idle_gpus_while_warming_up_are_slow_at_most() -> None:
    scene = Scene()
    scene.look(110, UP_TO_WEIGHTS)
    scene.look(120, CAPTURE)
    for done in range(53):
        scene.look(121 + done / 10, graph(done))
    scene.is_bound = True
    scene.look(130, "\n" + BIND)
    verdicts = []
    for second in range(131, 131 + 600):
        scene.look(second, ACCESS)
        verdicts.append(scene.judged(second).verdict)
    assert set(verdicts) == {Verdict.PROGRESSING, Verdict.SLOW}
    assert verdicts == sorted(verdicts, key=ORDER.index)
    judgement = scene.judged(730)
    assert judgement.phase is Phase.WARMING_UP
    assert judgement.still_since[MarkSource.GPU_MEMORY] == at(110)
    assert "warming_up for 600 s" in judgement.message
    assert "deadline 660 s" in judgement.message


def test_scenario_d_a_frozen_capture_is_told_within_minutes_with_all_there_is_to_know() -> None:
    scene = Scene()
    scene.look(110, UP_TO_WEIGHTS)
    scene.look(120, CAPTURE)
    for done in range(4):
        scene.look(121 + done, graph(done))
    said: dict[Verdict, int] = {}
    for second in range(125, 600):
        scene.cpu_ticks += 800  # eight ranks spin in a collective
        scene.look(second)
        said.setdefault(scene.judged(second).verdict, second - 124)
    assert said == {Verdict.PROGRESSING: 1, Verdict.SLOW: 150, Verdict.SUSPECTED_HUNG: 300}
    judgement = scene.judged(600)
    assert judgement.last_mark is not None
    assert (judgement.last_mark.value, judgement.last_mark_at) == ("3 of 52 graphs", at(124))
    assert judgement.hung_at == at(424)
    assert judgement.deadline_source is DeadlineSource.SHIPPED
    assert judgement.message == (
        "capturing_graphs for 480 s; last mark progress 3 of 52 graphs at 02:02:04, 476 s ago; "
        "since then 3800 s of CPU, 0 MiB read, 0 log lines; usually 10 to 240 s by the shipped table; "
        "deadline 300 s: no earlier start tells; measured 8 to 385 s; at most 50 s a graph after the first"
    )


def test_scenario_d_a_slow_capture_stays_slow_as_long_as_graphs_come() -> None:
    scene = Scene()
    scene.look(110, UP_TO_WEIGHTS)
    scene.look(120, CAPTURE)
    verdicts = set()
    for done in range(53):
        scene.look(121 + done * 100, graph(done))
        verdicts.add(scene.judged(121 + done * 100 + 99).verdict)
    assert verdicts == {Verdict.PROGRESSING, Verdict.SLOW}


def test_a_compilation_carries_a_capture_and_the_talk_of_a_frozen_one_does_not() -> None:
    """Twenty minutes of ninja and nvcc before the first graph, against PyTorch's complaint about a peer each minute."""
    compiling, frozen = Scene(), Scene()
    for scene in (compiling, frozen):
        scene.look(110, UP_TO_WEIGHTS + CAPTURE)
    hung_s = None
    for second in range(120, 110 + 1_500, 10):
        compiling.members = 10 + second // 10 % 5
        compiling.look(second)
        assert compiling.judged(second).verdict is not Verdict.SUSPECTED_HUNG
        complaint = "[W1129 ProcessGroupNCCL.cpp:1771] Failed to check the flag on TCPStore: Broken pipe\n"
        frozen.look(second, complaint if second % 60 == 0 else "")
        if hung_s is None and frozen.judged(second).verdict is Verdict.SUSPECTED_HUNG:
            hung_s = second
    assert hung_s is not None
    assert hung_s - 110 <= 900 * 1.5 + 10


def test_bytes_carry_an_unknown_model_for_hours() -> None:
    scene = Scene()
    scene.look(30, UP_TO_WEIGHTS.partition("[2026-11-29 02:01:36")[0])
    for second in range(40, 40 + 4 * 3_600, 60):
        observation = Observation(
            at=at(second),
            process=ProcessFact(ProcessState.RUNNING, member_count=10),
            listener=ListenerFact(ListenerOwner.NONE),
            effort=EffortFact(cpu_ticks=100, read_bytes=2**40 + second * 100_000),
            health=HealthFact(),
            log=scene.log.reading,
        )
        scene.marks = scene.marks.fold(observation)
        assert scene.judged(second).verdict is not Verdict.SUSPECTED_HUNG
    assert scene.judged(4 * 3_600).verdict is Verdict.SLOW


def test_stale_facts_make_no_verdict_worse() -> None:
    scene = Scene()
    scene.look(110, UP_TO_WEIGHTS + CAPTURE)
    judgement = judge(scene.marks, SHIPPED, at(90_000), heard_at=at(140))
    assert (judgement.verdict, judgement.judged_at) == (Verdict.PROGRESSING, at(140))
    assert judge(scene.marks, SHIPPED, at(90_000)).verdict is Verdict.SUSPECTED_HUNG


def test_a_service_that_starts_in_the_midst_of_it_watches_before_it_accuses() -> None:
    scene = Scene(began_s=20_000)
    scene.look(20_001, UP_TO_WEIGHTS + CAPTURE + graph(3))
    judgement = scene.judged(20_100)
    assert judgement.verdict is Verdict.SLOW
    assert judgement.last_mark is not None
    assert judgement.last_mark_at == at(120), "by the log's own clock"
    assert judgement.hung_at == at(20_300)
    assert scene.judged(20_300).verdict is Verdict.SUSPECTED_HUNG


def test_the_profiles_own_deadline_counts_from_the_first_second() -> None:
    """SIGSTOP during a start, with hang_after_s set to five."""
    scene = Scene()
    scene.look(1, UP_TO_WEIGHTS)
    short = expected_from(History(), hang_after_s=5)
    verdicts = [judge(scene.marks, short, at(second)).verdict for second in (3, 4, 5.9, 6, 60)]
    assert verdicts == ["progressing", "slow", "slow", "suspected_hung", "suspected_hung"]
    assert judge(scene.marks, short, at(6)).deadline_source is DeadlineSource.PROFILE_LIMIT


def test_before_the_first_line_there_is_a_deadline_too() -> None:
    marks = Marks.begin(BEGAN_AT)
    judgement = judge(marks, SHIPPED, at(100))
    assert (judgement.verdict, judgement.phase, judgement.last_mark) == (Verdict.SLOW, None, None)
    assert "before its first line for 100 s; no mark in 100 s" in judgement.message
    assert judge(marks, SHIPPED, at(600)).verdict is Verdict.SUSPECTED_HUNG


def test_longer_than_this_profile_ever_took_is_slow_though_it_moves() -> None:
    samples = tuple(PhaseSample(f"ln_{n}", Phase.CAPTURING_GRAPHS, 20, 52) for n in range(5))
    expected = expected_from(History(profile_on_node=samples))
    scene = Scene()
    scene.look(110, UP_TO_WEIGHTS + CAPTURE)
    for done in range(50):
        scene.look(111 + done, graph(done))
    early, late = judge(scene.marks, expected, at(150)), judge(scene.marks, expected, at(161))
    assert (early.verdict, late.verdict) == (Verdict.SLOW, Verdict.SLOW)
    assert judge(scene.marks, SHIPPED, at(161)).verdict is Verdict.PROGRESSING
    assert "usually 20 to 20 s by 5 earlier stays" in late.message


def test_the_evidence_is_plain_json() -> None:
    scene = Scene()
    scene.look(110, UP_TO_WEIGHTS + CAPTURE + graph(3))
    judgement = scene.judged(200)
    told = json.loads(json.dumps(evidence(judgement)))
    assert told["verdict"] == judgement.verdict
    assert told["progress"] == {"done": 3, "total": 52, "unit": "graphs"}
    assert told["message"] == judgement.message
    assert datetime.fromisoformat(told["hung_at"]) - datetime.fromisoformat(told["last_mark_at"]) >= timedelta(
        seconds=0
    )


@pytest.mark.parametrize("phase", [Phase.LOADING_WEIGHTS, Phase.CAPTURING_GRAPHS, Phase.WARMING_UP])
def test_a_verdict_that_fell_before_contact_was_lost_does_not_heal_with_it(phase: Phase) -> None:
    deadline_s = deadline_of(phase, SHIPPED)
    marks = Marks.begin(at(0))
    start = frozen_start(1, phase)
    for _, look in start.looks(until_s=(start.freezes_after_s or 0) + deadline_s + 60):
        marks = marks.fold(look)
    last_at = marks.picture.at
    assert judge(marks, SHIPPED, last_at).verdict is Verdict.SUSPECTED_HUNG
    back = marks.watched_anew(last_at + timedelta(hours=1))
    assert judge(back, SHIPPED, last_at + timedelta(hours=1, seconds=1)).verdict is Verdict.SUSPECTED_HUNG


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 300), st.floats(0, 1), st.lists(st.floats(0, 9_000), min_size=2, max_size=6), st.booleans())
def test_time_alone_makes_no_verdict_better(seed: int, share: float, waits: list[float], has_lost: bool) -> None:  # noqa: FBT001
    start = moving_start(seed)
    marks = Marks.begin(BEGAN_AT)
    for _, look in start.looks(until_s=start.duration_s * share):
        marks = marks.fold(look)
    if has_lost:
        marks = marks.watched_anew(marks.picture.at + timedelta(seconds=500))
    verdicts = [judge(marks, SHIPPED, marks.picture.at + timedelta(seconds=wait)).verdict for wait in sorted(waits)]
    assert verdicts == sorted(verdicts, key=ORDER.index)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 300))
def test_a_verdict_heals_by_a_mark_only(seed: int) -> None:
    start = frozen_start(seed) if seed % 2 else moving_start(seed)
    marks, before = Marks.begin(BEGAN_AT), judge(Marks.begin(BEGAN_AT), SHIPPED, BEGAN_AT)
    for now_s, look in start.looks(until_s=min(start.duration_s, 3_000)):
        marks = marks.fold(look)
        after = judge(marks, SHIPPED, at(now_s))
        if ORDER.index(after.verdict) < ORDER.index(before.verdict):
            assert after.last_mark_at > before.last_mark_at
        before = after
