"""What a serving engine complains of, each with a beginning and, when it is over, an end."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from service.sglang.acceptance import AcceptanceWatch
from service.sglang.failures.codes import Code
from service.sglang.failures.rule import Evidence
from service.sglang.faults import Fault, FaultKind
from service.sglang.log_lines import instant_of
from service.sglang.patterns import any_of
from service.sglang.startup_log import StartupLog

SLOW_LINES = 10
SLOW_LENGTH = 1.25
"""A mean accept length below this costs more than it saves: most verify steps produce the bonus token only."""
INEFFECTIVE_LINES = 5
"""Decode lines come every 40 verify steps: so many are 200 steps without one accepted draft token."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One complaint: since when, until when (None: it goes on), how often, and the lines that prove it."""

    code: Code
    began_at: datetime | None
    ended_at: datetime | None
    count: int
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class FindingRule:
    """Which lines are a complaint, how many in a row make it one, and after how long a silence it is over."""

    code: Code
    says: re.Pattern[str]
    min_burst: int = 1
    quiet_s: float = 300.0
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
    now = log.reading.last_line_at
    faults = [fault for fault in log.faults if not fault.scene.was_stopping]
    found = [one for rule in FINDING_RULES if (one := _found(rule, faults, now, log.healed_at))]
    if speculation := _ineffective(log.acceptance) or _slow(log.acceptance):
        found.append(speculation)
    return found


def _found(rule: FindingRule, faults: list[Fault], now: datetime | None, healed_at: datetime | None) -> Finding | None:
    """Return the complaint of a rule over all shapes of line that it knows."""
    hits = [
        fault
        for fault in faults
        if (fault.kind is FaultKind.NOTICE or not fault.is_fatal) and rule.says.search(fault.text)
    ]
    if not hits or max(fault.burst for fault in hits) < rule.min_burst:
        return None
    began_at = hits[0].scene.at
    last_at = max((fault.last_at for fault in hits if fault.last_at), default=None)
    ended_at = healed_at if rule.code is Code.SERVING_HANG else None
    if ended_at is None and now and last_at and now - last_at > timedelta(seconds=rule.quiet_s):
        ended_at = last_at
    evidence = tuple(Evidence(fault.scene.line, fault.entries[0].whole.rstrip()) for fault in hits[:4])
    return Finding(rule.code, began_at, ended_at, sum(fault.count for fault in hits), evidence)


def _ineffective(watch: AcceptanceWatch) -> Finding | None:
    """Return the complaint of a speculation that accepts nothing, while it does so."""
    if watch.count < INEFFECTIVE_LINES:
        return None
    evidence = (_quoted(watch.first_line, watch.first), _quoted(watch.last_line, watch.last))
    began_at = instant_of(watch.first, utc_offset_s=0)
    return Finding(Code.SPECULATION_INEFFECTIVE, began_at, None, watch.count, evidence)


def _slow(watch: AcceptanceWatch) -> Finding | None:
    """Return the complaint of a speculation that hardly accepts anything, over all that was decoded."""
    if watch.lines < SLOW_LINES or watch.total >= SLOW_LENGTH * watch.lines:
        return None
    return Finding(Code.SPECULATIVE_SLOW, None, None, watch.lines, (_quoted(watch.last_line, watch.last),))


def _quoted(line: int, raw: bytes) -> Evidence:
    return Evidence(line, raw[:500].decode("utf-8", "replace").rstrip())
