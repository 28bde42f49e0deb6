"""What a serving engine complains of, each with a beginning and, when it is over, an end."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from service.sglang.acceptance.decode_lines import AcceptanceWatch, quoted
from service.sglang.failures.codes import Code
from service.sglang.failures.rule import Evidence
from service.sglang.faults import QUIET_S, Fault, FaultKind
from service.sglang.log_lines import instant_of
from service.sglang.patterns import any_of
from service.sglang.startup_log import StartupLog

SLOW_LINES = 10
SLOW_LENGTH = 1.25
"""A mean accept length below this costs more than it saves: most verify steps produce the bonus token only."""
INEFFECTIVE_LINES = 5
INEFFECTIVE_STEPS = 200
"""So many decode lines and verify steps in a row without one accepted draft token are no accident."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One complaint: since when, until when (None: it goes on), how often, and the lines that prove it."""

    code: Code
    began_at: datetime | None
    ended_at: datetime | None
    count: int
    evidence: tuple[Evidence, ...]
    detail: str = ""
    """How much of it, in numbers, where the log has them."""


@dataclass(frozen=True, slots=True)
class FindingRule:
    """Which lines are a complaint, how many in a row make it one, and after how long a silence it is over."""

    code: Code
    says: re.Pattern[str]
    min_burst: int = 1
    quiet_s: float = QUIET_S
    example: str = ""


FINDING_RULES: tuple[FindingRule, ...] = (
    FindingRule(
        Code.GPU_HARDWARE_ERROR,
        any_of(
            r"Xid \(PCI:[0-9a-fA-F:.]+\): (?:48|61|62|64|74|79|92|94|95|109|119|120|136|140|143|14[4-9]|150|15[4-8])\b",
            r"[Uu]ncorrectable (?:ECC|NVLink)",
            r"fallen off the bus",
        ),
        example="NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    ),
    FindingRule(
        Code.SERVING_HANG,
        any_of(r"^Health check failed\. Server couldn't get a response"),
        example="Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
    ),
    FindingRule(
        Code.WATCHDOG_TIMEOUT,
        any_of(r"[Ww]atchdog timeout \(.{0,120}soft=True"),
        example="Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)",
    ),
    FindingRule(
        Code.PD_TRANSFER_FAILURE,
        any_of(
            r"Mooncake (?:Transfer Engine|memory) .{0,40}(?:[Ee]rror|fail)",
            r"KVTransferError",
            r"(?:Prefill|Decode) (?:transfer|bootstrap|handshake) failed",
            r"[Ff]ail(?:ed)? to (?:register (?:local )?memory|send kv)",
            r"(?:Error|Could not|[Ff]ail(?:ed)? to) (?:fetch\w*|connect to|get) .{0,60}bootstrap",
            r"Losing connection with (?:prefill|decode)",
        ),
        example="Decode transfer failed for request rank=0 decode_req.req.rid='...' with exception KVTransferError",
    ),
    FindingRule(
        Code.CUDA_OOM_RUNTIME,
        any_of(r"^(?:Prefill|Decode) out of memory\. Try to lower your batch size"),
        example="Prefill out of memory. Try to lower your batch size.",
    ),
    FindingRule(
        Code.NCCL_INIT_FAILURE,
        any_of(r"NCCL WARN .{0,200}(?:[Ee]rror|[Ff]ail|[Tt]ime(?:d )?out|[Cc]losed)"),
        min_burst=2,
        example="NCCL WARN NET/IB : Got completion from peer 10.0.0.2 with status=12 error",
    ),
    FindingRule(
        Code.KV_CACHE_RETRACT,
        any_of(r"Decode out of memory happened", r"KV cache pool is full\. Retract", r"#retracted_reqs: [1-9]"),
        min_burst=3,
        example="Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.0980 -> 0.1919",
    ),
)
"""In the order of their weight. One retraction is normal; three within a minute of each other are a storm."""


def findings(log: StartupLog) -> list[Finding]:
    """Return what the engine complains of, the weightiest first; what it says while it stops is none."""
    speculation = _ineffective(log) or _slow(log.acceptance)
    return troubles(log) + ([speculation] if speculation else [])


def troubles(log: StartupLog) -> list[Finding]:
    """Return the complaints that the engine makes in so many words: all but those that its numbers prove."""
    now = log.reading.last_line_at
    faults = [fault for fault in log.faults if not fault.scene.was_stopping]
    return [one for rule in FINDING_RULES if (one := _found(rule, faults, now, log.healed_at))]


def _found(rule: FindingRule, faults: list[Fault], now: datetime | None, healed_at: datetime | None) -> Finding | None:
    """Return the newest complaint of a rule over all shapes of line that it knows."""
    said = [
        fault
        for fault in faults
        if (fault.kind is FaultKind.NOTICE or not fault.is_fatal) and rule.says.search(fault.text)
    ]
    hits = _newest(said, timedelta(seconds=rule.quiet_s))
    if not hits or max(fault.burst for fault in hits) < rule.min_burst:
        return None
    began_at = min((at for fault in hits if (at := _began_at(fault))), default=None)
    last_at = max((fault.last_at for fault in hits if fault.last_at), default=None)
    ended_at = healed_at if rule.code is Code.SERVING_HANG else None
    if ended_at is None and now and last_at and now - last_at > timedelta(seconds=rule.quiet_s):
        ended_at = last_at
    evidence = tuple(Evidence(fault.scene.line, fault.entries[0].whole.rstrip()) for fault in hits[:4])
    return Finding(rule.code, began_at, ended_at, sum(fault.count for fault in hits), evidence)


def _newest(hits: list[Fault], quiet: timedelta) -> list[Fault]:
    """Return those of faults that no silence parts from the last one: what was over before is another complaint."""
    kept: list[Fault] = []
    began_at: datetime | None = None
    for fault in sorted(hits, key=lambda fault: fault.last_line, reverse=True):
        if began_at and fault.last_at and began_at - fault.last_at > quiet:
            break
        kept.append(fault)
        began_at = min((at for at in (began_at, _began_at(fault)) if at), default=None)
    return sorted(kept, key=lambda fault: fault.scene.line)


def _began_at(fault: Fault) -> datetime | None:
    return fault.began_at or fault.scene.at


def _ineffective(log: StartupLog) -> Finding | None:
    """Return the complaint of a speculation that accepts nothing, while it does so."""
    watch = log.acceptance
    if watch.run_lines < INEFFECTIVE_LINES or watch.run_steps < INEFFECTIVE_STEPS:
        return None
    first, last = quoted(watch.run_first_line, watch.run_first), watch.latest
    return Finding(
        Code.SPECULATION_INEFFECTIVE,
        instant_of(watch.run_first, utc_offset_s=log.utc_offset_s),
        None,
        watch.run_lines,
        (Evidence(watch.run_first_line, first.text), Evidence(watch.last_line, last.text)),
        f"accept length {watch.run_tokens / watch.run_steps:.2f} over about {watch.run_tokens:.0f} tokens "
        f"({watch.run_steps:.0f} verify steps)",
    )


def _slow(watch: AcceptanceWatch) -> Finding | None:
    """Return the complaint of a speculation that hardly accepts anything, over all that was decoded."""
    if watch.lines < SLOW_LINES or watch.length_sum >= SLOW_LENGTH * watch.lines:
        return None
    evidence = (Evidence(watch.last_line, watch.latest.text),)
    detail = f"accept length {watch.length_sum / watch.lines:.2f} over {watch.lines} decode lines"
    return Finding(Code.SPECULATIVE_SLOW, None, None, watch.lines, evidence, detail)
