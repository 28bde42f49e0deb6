"""Finds the root cause: the first exception of the first rank that failed; what follows are consequences."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.sglang.exits import exit_meaning
from service.sglang.failures.codes import Code, remedy_text
from service.sglang.failures.findings import Finding, findings
from service.sglang.failures.meanings import MEANINGS
from service.sglang.failures.rule import Confidence, Diagnosis, Evidence, Role, Rule
from service.sglang.failures.rules import RULES
from service.sglang.faults import Entry, Fault, FaultKind
from service.sglang.log_lines import peel
from service.sglang.patterns import any_of
from service.sglang.phases import Phase
from service.sglang.stacks import phase_of_frames
from service.sglang.startup_log import LogReading, StartupLog
from service.sglang.versions import Version, parse_version

EVIDENCE_LIMIT = 4
EVIDENCE_TEXT_LIMIT = 500
SUMMARY_LINE_LIMIT = 300
_OF_GPU_MEMORY = {Code.CUDA_OOM_WEIGHTS, Code.CUDA_OOM_GRAPH_CAPTURE, Code.CUDA_OOM_RUNTIME, Code.GPU_OCCUPIED}

_JIT = any_of(
    r"flashinfer\.jit: Loading JIT ops",
    r"jit/\w+\.py:\d+",
    r"cpp_extension\.py:\d+",
    r"file_baton\.py:\d+",
    r"DeepGEMM JIT",
    r"triton/compiler/\w+\.py:\d+",
)


@dataclass(frozen=True, slots=True)
class GpuFact:
    """What is known of one GPU of the launch. None: not readable, which is unknown and not healthy."""

    name: str
    foreign_memory_mib: int | None = None
    """Memory that processes outside this launch hold."""
    needs_reset: bool | None = None
    """The driver's recovery action is not None, or a cell of its row is an error."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known beside the log. `has_exited` with no code: it is gone, and nobody saw how.

    `was_asked_to_stop`: an end on request is no failure. `oom_kills`: how far the host's counter of out-of-memory kills
    rose during the launch. `is_stalled`: a clock says that nothing moves although the process lives.
    """

    has_exited: bool = False
    exit_code: int | None = None
    was_asked_to_stop: bool = False
    oom_kills: int | None = None
    is_stalled: bool = False
    engine_version: str | None = None
    gpus: tuple[GpuFact, ...] = ()


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A fault with the rule that knows it; without one it is an exception that no rule knows."""

    fault: Fault
    rule: Rule | None
    entry: Entry

    @property
    def role(self) -> Role:
        return Role.CAUSE if self.rule is None else self.rule.role


def diagnose(log: StartupLog, circumstances: Circumstances | None = None) -> Diagnosis | None:
    """Return why the start failed or the server serves badly; None when nothing is wrong as far as this is known."""
    around = circumstances or Circumstances()
    reading = log.reading
    version = parse_version(around.engine_version) or log.version
    faults = log.faults
    was_asked = around.was_asked_to_stop or reading.is_stopping
    has_failed = reading.has_failed or (around.has_exited and around.exit_code != 0 and not was_asked)
    if not has_failed:
        return _of_what_lives(log, around, version)
    suspects = [suspect for fault in faults if (suspect := _suspect(fault, reading, version))]
    chosen = _root(suspects, log.survived_to_line)
    if chosen is None or chosen.role is Role.CONSEQUENCE:
        return _without_cause(chosen, reading, around, version, log.entered_by)
    return _judged(chosen, suspects, faults, around, version, is_alone=log.is_one_node)


def _of_what_lives(log: StartupLog, around: Circumstances, version: Version | None) -> Diagnosis | None:
    """Judge a server that has not failed: what it complains of, what a clock adds, and whose error else this is."""
    reading = log.reading
    if worst := next(iter(findings(log)), None):
        return _diagnosis_of(worst, version)
    if (around.is_stalled or reading.was_cut_short) and (code := _stalled(reading, around)):
        facts = MEANINGS[code]
        entries = [log.entered_by] if log.entered_by else []
        return Diagnosis(code, facts.meaning, remedy_text(facts.remedy, version), Confidence.LOW, _evidence(entries))
    return _of_client(log, version)


def _diagnosis_of(finding: Finding, version: Version | None) -> Diagnosis:
    facts = MEANINGS[finding.code]
    over = "" if finding.ended_at is None else " (it is over)"
    told = finding.detail or _first_line(peel(finding.evidence[0].text, "").text)
    return Diagnosis(
        finding.code,
        f"{facts.meaning}{over}: {told}",
        remedy_text(facts.remedy, version),
        Confidence.HIGH if finding.count > 1 else Confidence.MEDIUM,
        finding.evidence,
    )


def _stalled(reading: LogReading, around: Circumstances) -> Code | None:
    """Return what stands still where nothing moves: only a clock, or an end without a word, can tell."""
    if reading.phase in {Phase.CAPTURING_GRAPHS, Phase.COMPILING_KERNELS}:
        has_begun = reading.progress is not None and reading.progress.done > 0
        return None if has_begun else Code.JIT_COMPILE_SLOW_OR_STUCK
    if not around.is_stalled:
        return None
    if reading.phase is Phase.DISTRIBUTED_INIT:
        return Code.NCCL_INIT_HANG
    return Code.SERVING_HANG if reading.phase is Phase.SERVING else None


def _of_client(log: StartupLog, version: Version | None) -> Diagnosis | None:
    """Judge a traceback in the log of a healthy server that holds no frame of the engine."""
    for fault in log.faults:
        is_foreign = bool(fault.frames) and not any("/srt/" in frame or "sglang/" in frame for frame in fault.frames)
        if fault.kind is FaultKind.EXCEPTION and fault.scene.was_ready and not fault.scene.was_stopping and is_foreign:
            facts = MEANINGS[Code.CLIENT_SIDE_BUG]
            return Diagnosis(
                Code.CLIENT_SIDE_BUG,
                f"{facts.meaning}: {_first_line(fault.entries[0].text)}",
                remedy_text(facts.remedy, version),
                Confidence.MEDIUM,
                _evidence(fault.entries),
            )
    return None


def _suspect(fault: Fault, reading: LogReading, version: Version | None) -> _Suspect | None:
    """Return a fault with the first rule that holds of it; a line that no rule knows is no suspect."""
    if fault.scene.was_stopping:
        return None
    stood = fault.scene.phase or reading.phase
    phase = phase_of_frames(fault.frames, stood, was_ready=fault.scene.was_ready) or stood
    for rule in RULES:
        entry = rule.entry_of(fault, phase, version)
        if entry is not None:
            return _Suspect(fault, rule, entry)
    return None if fault.kind is FaultKind.NOTICE else _Suspect(fault, None, fault.entries[-1])


def _root(suspects: Sequence[_Suspect], survived_to_line: int) -> _Suspect | None:
    """Return the first cause: tier by tier, and within a tier the earliest line.

    A telling line (an Xid, a kernel's kill) is preferred to an exception that no rule knows.
    """
    fatal = [one for one in suspects if one.fault.is_fatal and one.fault.kind is not FaultKind.NOTICE]
    first_fatal_line = fatal[0].fault.scene.line if fatal else None
    tiers: dict[int, list[_Suspect]] = {}
    for one in suspects:
        tiers.setdefault(_tier(one, first_fatal_line, survived_to_line), []).append(one)
    if not tiers:
        return None
    best = sorted(tiers[min(tiers)], key=lambda one: one.role is Role.CONSEQUENCE and _is_vague(one))
    telling = [one for one in best if one.rule is not None and one.fault.kind is not FaultKind.EXCEPTION]
    return telling[0] if best[0].rule is None and telling else best[0]


def _is_vague(one: _Suspect) -> bool:
    """Return whether a consequence only says that something failed, not what became of which process."""
    return one.rule is not None and one.rule.confidence is Confidence.LOW


def _tier(one: _Suspect, first_fatal_line: int | None, survived_to_line: int) -> int:
    if one.role is Role.CONSEQUENCE:
        return 4
    if one.role is Role.COLLATERAL:
        return 2
    if one.fault.kind is not FaultKind.EXCEPTION or (one.fault.is_fatal and not one.fault.is_cut):
        return 0
    if first_fatal_line is not None or one.fault.is_cut:
        return 3
    return 3 if one.fault.last_line <= survived_to_line else 1


def _judged(
    chosen: _Suspect,
    suspects: Sequence[_Suspect],
    faults: Sequence[Fault],
    around: Circumstances,
    version: Version | None,
    *,
    is_alone: bool,
) -> Diagnosis:
    rule, entry = chosen.rule, chosen.entry
    code = rule.code if rule else Code.UNKNOWN
    confidence = rule.confidence if rule else Confidence.LOW
    agreeing = [one.entry for one in suspects if one.rule and one.rule.code is code and one.fault is not chosen.fault]
    evidence = [entry, *agreeing[:1], *chosen.fault.entries, *agreeing[1:]]
    if code is Code.PEER_DISCONNECTED and is_alone:
        code, confidence = Code.CHILD_PROCESS_DIED, Confidence.MEDIUM
    if code is Code.WATCHDOG_TIMEOUT and (compiling := _compiling(faults)):
        code, confidence, evidence = Code.JIT_COMPILE_SLOW_OR_STUCK, Confidence.MEDIUM, [entry, *compiling]
    facts = MEANINGS[code]
    summary = (rule.summary if rule and code is rule.code else "") or facts.meaning
    remedy = remedy_text((rule.remedy if rule else "") or facts.remedy, version)
    return Diagnosis(
        code,
        f"{summary}: {_first_line(entry.text)}",
        f"{remedy}{_of_gpus(code, around)}",
        confidence,
        _evidence(evidence),
    )


def _without_cause(
    chosen: _Suspect | None, reading: LogReading, around: Circumstances, version: Version | None, mark: Entry | None
) -> Diagnosis:
    """Judge an end that left no error of its own: by exit code, the host's counters and the GPUs' state."""
    entries = [chosen.entry] if chosen else []
    if mark is not None:
        entries.append(mark)
    said = _first_line(chosen.entry.text) if chosen else exit_meaning(around.exit_code)
    code, confidence = Code.UNKNOWN, Confidence.LOW
    if any(gpu.needs_reset for gpu in around.gpus):
        code, confidence = Code.GPU_HARDWARE_ERROR, Confidence.MEDIUM
    elif around.oom_kills:
        code, confidence = Code.HOST_OOM_KILLED, Confidence.HIGH
    elif chosen is not None:
        code, confidence = Code.CHILD_PROCESS_DIED, chosen.rule.confidence if chosen.rule else Confidence.LOW
    facts = MEANINGS[code]
    where = f" while {reading.phase.replace('_', ' ')}" if reading.phase else ""
    return Diagnosis(
        code,
        f"{facts.meaning}{where}: {said}",
        remedy_text(facts.remedy, version),
        confidence,
        _evidence(entries),
    )


def _compiling(faults: Sequence[Fault]) -> list[Entry]:
    """Return the lines that show a compiler or its lock at work."""
    return [fault.entries[0] for fault in faults if fault.kind is FaultKind.NOTICE and _JIT.search(fault.text)]


def _of_gpus(code: Code, around: Circumstances) -> str:
    """Return what the GPUs add to a remedy: who else holds their memory."""
    if code not in _OF_GPU_MEMORY:
        return ""
    held = [f"{gpu.name}: {gpu.foreign_memory_mib} MiB" for gpu in around.gpus if gpu.foreign_memory_mib]
    return f" Processes outside this launch hold memory of its GPUs ({', '.join(held)})." if held else ""


def _evidence(entries: Sequence[Entry]) -> tuple[Evidence, ...]:
    """Return the physical lines of the entries, each once; of a long message the last line too: it often says most."""
    quoted = [*entries[:1], *(entry.last() for entry in entries[:1]), *entries[1:]]
    seen = {entry.line: Evidence(entry.line, entry.whole[:EVIDENCE_TEXT_LIMIT].rstrip()) for entry in quoted}
    return tuple(seen.values())[:EVIDENCE_LIMIT]


def _first_line(text: str) -> str:
    line = text.split("\n", 1)[0].rstrip()
    return line if len(line) <= SUMMARY_LINE_LIMIT else f"{line[:SUMMARY_LINE_LIMIT].rstrip()} …"
