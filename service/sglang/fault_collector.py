"""Gathers what goes wrong while a log streams by, in constant memory: first and last faults, shapes of lines once."""

import re
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime

from service.sglang.faults import BURST_GAP_S, QUIET_S, TEXT_LIMIT, WHOLE_LIMIT, Entry, Fault, FaultKind, Scene
from service.sglang.log_lines import LogLine

FRAMES_LIMIT = 160
MESSAGE_LINES_LIMIT = 40
NATIVE_LINES_LIMIT = 14
SILENT_LINES_LIMIT = 200
ENTRIES_LIMIT = 8
FIRST_FAULTS = 32
LAST_FAULTS = 8
NOTICE_SHAPES = 160

_TRACEBACK = "Traceback (most recent call last)"
_HIT = re.compile(
    r"\b(?:Scheduler|\w+Manager|\w+Controller|\w+WorkerClient|ModelTp\w+|\w+Worker) hit an exception"
    r"|^Exception in (?:Model\w+|run_\w+|TpModelWorker\w*)\b|Initialization failed\. \w+ error:"
    r"|^\w+ init state: Traceback"
)
_FRAME = re.compile(r'^\W{0,60}File "([^"]{1,400})", line \d{1,7}(?:,? in ([^\n]{1,80}))?')
_CHAINED = re.compile(r"^(?:During handling of the above exception|The above exception was the direct cause)")
_EXCEPTION = re.compile(r"^(?:\|\s{0,4})?((?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{1,80})(?::(?:\s|$)|$)")
_BARE_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w{0,60}\.){0,8}(?:[A-Z]\w{0,80})?(?:Error|Exception|OutOfResources|CompilerFailed|IsEnabled)(?::(?:\s|$)|$)"
)
_NATIVE = re.compile(r"Fatal Python error: |!!!!!!! Segfault encountered|\*\*\* SIG[A-Z]+ \(|^\*\*\* Aborted at")
_NATIVE_FRAME = re.compile(r"^\s{0,8}@\s{1,12}0x[0-9a-f]{4,16}\s{1,4}(\S.{0,160})")
_NATIVE_END = re.compile(r"^Extension modules: ")
_SHAPE = re.compile(r"0x[0-9a-fA-F]+|\d+|'[^']{0,200}'")
_MARKERS = re.compile(r"^\s*[\^~]+[\s\^~]*$")
_ADVICE = re.compile(r"Possible (?:solutions|fixes):|For debugging consider passing|Compile with `TORCH_USE_CUDA_DSA`")


@dataclass(slots=True)
class _Open:
    """A traceback or native stack that is being read."""

    kind: FaultKind
    scene: Scene
    rank: str
    is_fatal: bool
    entries: list[Entry]
    frames: list[str]
    head: Entry
    code: str = ""
    message_lines: int = 0
    silent_lines: int = 0
    is_message: bool = False
    is_chained: bool = False
    is_counting_frames: bool = True
    is_advice: bool = False

    def copy(self) -> "_Open":
        return replace(self, entries=list(self.entries), frames=list(self.frames))


@dataclass(slots=True)
class _Tally:
    """How often a line of one shape came since `began_at`; mutable, for it may come a million times."""

    fault: Fault
    began_at: datetime | None
    count: int = 1
    last_line: int = 0
    last_at: datetime | None = None
    burst: int = 1
    burst_now: int = 1

    def add(self, line: int, at: datetime | None) -> None:
        """Count one more; what many ranks say at one instant is one event of a burst."""
        silence_s = abs((at - self.last_at).total_seconds()) if at and self.last_at else 0.0
        if silence_s > QUIET_S:
            self.began_at, self.count, self.burst = at, 0, 0
        self.count += 1
        self.last_line = line
        if at is None or at != self.last_at:
            self.burst_now = self.burst_now + 1 if silence_s <= BURST_GAP_S else 1
            self.burst = max(self.burst, self.burst_now)
            self.last_at = at

    def told(self) -> Fault:
        """Return the fault with its counts."""
        return replace(
            self.fault,
            count=self.count,
            began_at=self.began_at,
            last_line=self.last_line,
            last_at=self.last_at,
            burst=self.burst,
        )


class FaultCollector:
    """Folds lines into faults; `copy` gives an independent one, for a look at an unfinished line."""

    __slots__ = ("_mark", "_notices", "_open", "first", "last")

    def __init__(self) -> None:
        self.first: list[Fault] = []
        self.last: deque[Fault] = deque(maxlen=LAST_FAULTS)
        self._notices: dict[str, _Tally] = {}
        self._open: _Open | None = None
        self._mark = ""
        """The line that announced the traceback which is to follow."""

    @property
    def is_open(self) -> bool:
        """Whether the next line may belong to a traceback."""
        return self._open is not None

    def copy(self) -> "FaultCollector":
        """Return an independent collector with the same content."""
        twin = FaultCollector()
        twin.first = list(self.first)
        twin.last = self.last.copy()
        twin._notices = {shape: replace(tally) for shape, tally in self._notices.items()}
        twin._open = self._open.copy() if self._open else None
        twin._mark = self._mark
        return twin

    @property
    def is_empty(self) -> bool:
        """Whether nothing has gone wrong so far."""
        return not self._notices and not self.crashes()

    def crashes(self) -> list[Fault]:
        """Return the tracebacks and native crashes in the order of their lines, the unfinished one included."""
        unfinished = _closed(self._open) if self._open is not None else None
        return [*self.first, *self.last, *([unfinished] if unfinished else [])]

    def faults(self) -> list[Fault]:
        """Return all faults in the order of their lines."""
        found = [*self.crashes(), *(tally.told() for tally in self._notices.values())]
        return sorted(found, key=lambda fault: fault.scene.line)

    def note(self, line: LogLine, scene: Scene, *, is_fatal: bool) -> bool:
        """Fold one line in; returns whether it belongs to a traceback or stack."""
        text = line.text
        if _TRACEBACK in text:
            self._begin_traceback(line, scene, is_fatal=is_fatal)
            return True
        if _NATIVE.search(text):
            self._close()
            self._open = self._opened(FaultKind.NATIVE, line, scene, is_fatal=True)
            self._open.entries.append(self._open.head)
            return True
        if _HIT.search(text):
            self._mark = _clipped(text)
        if self._open is not None and self._continue(self._open, line, scene, is_fatal=is_fatal):
            return True
        frame = _FRAME.match(text)
        if frame:
            self._open = self._opened(FaultKind.EXCEPTION, line, scene, is_fatal=bool(self._mark))
            self._open.frames.append(_frame_name(frame))
            return True
        if _BARE_EXCEPTION.match(text):
            self._open = self._opened(FaultKind.EXCEPTION, line, scene, is_fatal=bool(self._mark))
            self._add_entry(self._open, line, scene)
            return True
        return False

    def add_notice(self, line: LogLine, scene: Scene, *, is_fatal: bool) -> str:
        """Keep a line that stands for itself, and return the key of its shape; one of the same shape only counts."""
        shape = _SHAPE.sub("#", line.text[:200])
        if shape in self._notices:
            self.repeat(shape, scene.line, scene.at)
        elif len(self._notices) < NOTICE_SHAPES * (2 if is_fatal else 1):
            entries = (Entry(scene.line, _clipped(line.text), line.whole[:WHOLE_LIMIT]),)
            fault = Fault(FaultKind.NOTICE, scene, line.rank, entries, is_fatal=is_fatal)
            self._notices[shape] = _Tally(fault, scene.at, last_line=scene.line, last_at=scene.at)
        else:
            return ""
        return shape

    def repeat(self, shape: str, line: int, at: datetime | None) -> None:
        """Count one more line of a known shape."""
        self._notices[shape].add(line, at)

    def _begin_traceback(self, line: LogLine, scene: Scene, *, is_fatal: bool) -> None:
        is_fatal = bool(self._mark) or is_fatal or _HIT.search(line.text) is not None
        if self._open is not None and self._open.is_chained and not line.is_stamped:
            self._open.is_chained = self._open.is_message = False
            return
        self._close()
        self._open = self._opened(FaultKind.EXCEPTION, line, scene, is_fatal=is_fatal)

    def _opened(self, kind: FaultKind, line: LogLine, scene: Scene, *, is_fatal: bool) -> _Open:
        text = f"{self._mark}\n{line.text}" if self._mark else line.text
        self._mark = ""
        head = Entry(scene.line, _clipped(text), line.whole[:WHOLE_LIMIT])
        return _Open(kind, scene, line.rank, is_fatal=is_fatal, entries=[], frames=[], head=head)

    def _continue(self, block: _Open, line: LogLine, scene: Scene, *, is_fatal: bool) -> bool:
        """Give the line to the open block; False when it is none of its lines, which may also close it."""
        text = line.text
        if line.is_stamped or is_fatal:
            self._pass_by(block)
            return False
        frame = _FRAME.match(text) or _NATIVE_FRAME.match(text)
        if frame:
            return self._continue_frames(block, frame)
        if block.kind is FaultKind.NATIVE:
            return self._continue_native(block, text)
        if _CHAINED.match(text):
            block.is_chained, block.is_message = True, False
            return True
        if _EXCEPTION.match(text) and (block.frames or _BARE_EXCEPTION.match(text)) and not block.is_message:
            self._add_entry(block, line, scene)
            return True
        return self._continue_message(block, line, scene)

    def _pass_by(self, block: _Open) -> None:
        """Another process wrote a line: the end of a finished message, an interruption of an unfinished one."""
        block.silent_lines += 1
        if block.is_message or block.kind is FaultKind.NATIVE or block.silent_lines > SILENT_LINES_LIMIT:
            self._close()

    def _continue_frames(self, block: _Open, frame: re.Match[str]) -> bool:
        if block.is_message and block.kind is FaultKind.EXCEPTION and not block.is_chained:
            self._close()
            return False
        block.is_chained, block.silent_lines, block.code = False, 0, ""
        if block.is_counting_frames and len(block.frames) < FRAMES_LIMIT:
            block.frames.append(_frame_name(frame))
        return True

    def _continue_native(self, block: _Open, text: str) -> bool:
        if text.startswith(("Thread 0x", "Current thread 0x")):
            block.is_counting_frames = text.startswith("Current")
            if block.is_counting_frames:
                block.frames.clear()
            return True
        block.silent_lines += 1
        if _NATIVE_END.match(text) or block.silent_lines > NATIVE_LINES_LIMIT:
            self._close()
        return False

    def _continue_message(self, block: _Open, line: LogLine, scene: Scene) -> bool:
        text = line.text
        if not block.is_message:
            block.silent_lines += 1
            if len(block.code) < WHOLE_LIMIT and not _MARKERS.match(text):
                block.code = f"{block.code} {text.strip()}".strip()
            if block.silent_lines > SILENT_LINES_LIMIT:
                self._close()
            return text[:1] in " \t"
        if not text.strip():
            block.message_lines = MESSAGE_LINES_LIMIT
            return True
        if block.message_lines >= MESSAGE_LINES_LIMIT:
            self._close()
            return False
        if _BARE_EXCEPTION.match(text):
            self._add_entry(block, line, scene)
            return True
        block.message_lines += 1
        block.is_advice = block.is_advice or _ADVICE.search(text) is not None
        entry = block.entries[-1]
        if not block.is_advice and len(entry.text) < TEXT_LIMIT:
            numbers = (*entry.numbers, scene.line)
            block.entries[-1] = replace(entry, text=_clipped(f"{entry.text}\n{text}"), numbers=numbers)
        return True

    def _add_entry(self, block: _Open, line: LogLine, scene: Scene) -> None:
        advice = _ADVICE.search(line.text)
        said = _clipped(line.text[: advice.start()] if advice else line.text)
        block.entries.append(Entry(scene.line, said, line.whole[:WHOLE_LIMIT]))
        block.is_message, block.message_lines, block.is_advice = True, 0, advice is not None

    def _close(self) -> None:
        if self._open is not None and (closed := _closed(self._open)):
            if len(self.first) < FIRST_FAULTS:
                self.first.append(closed)
            else:
                self.last.append(closed)
        self._open = None


def _closed(block: _Open) -> Fault | None:
    """Return the finished fault; one whose exception never came is kept when the engine announced it."""
    if not block.entries and not block.is_fatal:
        return None
    entries = tuple(block.entries[:ENTRIES_LIMIT]) or (block.head,)
    return Fault(
        block.kind,
        block.scene,
        block.rank,
        entries,
        tuple(block.frames),
        code=block.code,
        head=block.head.text,
        is_fatal=block.is_fatal,
        last_line=entries[-1].line,
        last_at=block.scene.at,
        is_cut=not block.entries,
    )


def _frame_name(match: re.Match[str]) -> str:
    """Return "last/three/parts.py function" of a frame, or the symbol of a native one."""
    if match.re is _NATIVE_FRAME:
        return match[1]
    return f"{'/'.join(match[1].split('/')[-4:])} {match[2] or ''}".rstrip()


def _clipped(text: str) -> str:
    return text[:TEXT_LIMIT]
