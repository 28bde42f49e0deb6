"""Reads the log of an engine as it streams by: phase, progress, ready or failed, and what went wrong.

Any chopping of the bytes gives the same reading; memory is constant, however long the log or one of its lines.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime

from service.sglang.acceptance.decode_lines import DECODE_LOG_INTERVAL, AcceptanceWatch
from service.sglang.fault_collector import FaultCollector
from service.sglang.faults import Entry, Fault, FaultKind, Scene
from service.sglang.log_envelope import is_envelope, unwrapped
from service.sglang.log_lines import LineSplitter, LogLine, instant_of, peel, plain, segments
from service.sglang.phases import Phase
from service.sglang.stacks import phase_of_frames
from service.sglang.start_phases import PhaseSpan, Progress, StartPhases
from service.sglang.startup_marks import VERSION, Sign
from service.sglang.trouble import INTERESTING, is_aftermath, is_benign, is_fatal, is_request, is_trouble
from service.sglang.versions import Version, parse_version

__all__ = ["LogReading", "PhaseSpan", "Progress", "StartupLog"]

_BATCH_WITHIN = 240
_ANSWERED = b'HTTP/1.1" 200 OK'
_REQUEST = b": obj="
"""Requests are logged whole, with the text of their users."""
_SHAPE_WITHIN = 1_024
_SHAPES_LIMIT = 4_096
_PIECE_LIMIT = 8_000
OLDEST_OF_DICT_STYLE = Version(0, 5, 17)
NEWEST_OF_CLASS_STYLE = Version(0, 5, 16)
"""The arguments are logged as a dict by 0.5.23 and as ServerArgs(...) up to 0.5.16 (facts: SGLang §4 #0)."""


@dataclass(frozen=True, slots=True)
class LogReading:
    """What the log says. `is_ready`: it said so, or serves, and has not failed since.

    `has_failed`: a failure is visible in the log; a server whose bind failed is not ready even if it prints the ready
    line (facts: SGLang §0.2). `phase` is the last one reached. `is_quiet`: no line of level info was seen, so the log
    cannot say more than its progress bars. `is_stopping`: somebody asked the server to stop.
    """

    phase: Phase | None
    progress: Progress | None
    is_ready: bool
    has_failed: bool
    phases: tuple[PhaseSpan, ...]
    engine_version: str | None
    last_line_at: datetime | None
    line_count: int
    is_quiet: bool = False
    is_stopping: bool = False
    was_cut_short: bool = False
    """The interpreter shut down in the midst of the start, without an error."""


class StartupLog:
    """The reader of one log: `log = log.feed(data, at)`; the old value is used up by it.

    Instants are those of the lines, local to the node (`utc_offset_s` east of UTC), else `at`. A log that does not say
    its `decode_log_interval`, because it is read from a later place on, has that of its server's arguments.
    """

    __slots__ = ("_ahead", "_fold", "_reading")

    def __init__(self, *, utc_offset_s: int = 0, decode_log_interval: int = DECODE_LOG_INTERVAL) -> None:
        self._fold = _Fold(utc_offset_s=utc_offset_s, acceptance=AcceptanceWatch(decode_log_interval))
        self._ahead: _Fold | None = None
        self._reading: LogReading | None = None

    def feed(self, data: bytes, at: datetime | None = None) -> "StartupLog":
        """Fold the next bytes in, which arrived at `at`."""
        self._ahead = self._reading = None
        self._fold.feed(data, at)
        return self

    @property
    def reading(self) -> LogReading:
        """Return what the log says so far; an unfinished last line counts, without being used up."""
        if self._reading is None:
            self._reading = self._looked_ahead().read()
        return self._reading

    @property
    def faults(self) -> list[Fault]:
        """Return what went wrong in this run, in the order of the lines."""
        return self._looked_ahead().own_faults()

    @property
    def acceptance(self) -> AcceptanceWatch:
        """Return what the decode lines say of speculation: those that have ended, for their numbers may be cut."""
        return self._fold.acceptance

    @property
    def batch_count(self) -> int:
        """Return of how many batches its lines told: only a scheduler that works writes them."""
        return self._fold.batch_count

    @property
    def utc_offset_s(self) -> int:
        """Return how far east of UTC its stamps are."""
        return self._fold.utc_offset_s

    @property
    def healed_at(self) -> datetime | None:
        """Return when /health answered 200 again after the engine had said that it failed; None if it has not."""
        return self._looked_ahead().healed_at

    @property
    def survived_to_line(self) -> int:
        """Return the line of the last sign that the start went on: an exception before it was survived."""
        return self._looked_ahead().phases.progress_line

    @property
    def is_one_node(self) -> bool:
        """Return whether the engine said that all its ranks run on this node: a lost peer is then a process of it."""
        return self._looked_ahead().phases.is_one_node

    @property
    def entered_by(self) -> Entry | None:
        """Return the line that began the present phase."""
        return self._looked_ahead().phases.entered_by

    @property
    def version(self) -> Version | None:
        """Return the engine's version: the one that the log names, else one whose lines look like these."""
        return self._looked_ahead().likely_version()

    def _looked_ahead(self) -> "_Fold":
        if self._ahead is None:
            self._ahead = self._fold.looked_ahead()
        return self._ahead


@dataclass(slots=True)
class _Fold:
    """The mutable state of a reader."""

    utc_offset_s: int
    splitter: LineSplitter = field(default_factory=LineSplitter)
    phases: StartPhases = field(default_factory=StartPhases)
    collector: FaultCollector = field(default_factory=FaultCollector)
    acceptance: AcceptanceWatch = field(default_factory=AcceptanceWatch)
    version: str | None = None
    at: datetime | None = None
    shapes: dict[bytes, str] = field(default_factory=dict)
    """What lines come to that differ in their digits only: "" nothing, else the key of a notice."""
    batch_count: int = 0
    is_unwell: bool = False
    healed_at: datetime | None = None

    def feed(self, data: bytes, at: datetime | None) -> None:
        for first, lines in self.splitter.lines(data):
            self.take_lines(first, lines, at)

    def looked_ahead(self) -> "_Fold":
        """Return the state as if the unfinished last line had ended."""
        pending = self.splitter.pending
        if not pending:
            return self
        twin = replace(
            self,
            phases=self.phases.copy(),
            collector=self.collector.copy(),
            acceptance=replace(self.acceptance),
            shapes={},
        )
        twin.take_lines(self.splitter.number, [pending], self.at)
        return twin

    def own_faults(self) -> list[Fault]:
        return [fault for fault in self.collector.faults() if fault.scene.line >= self.phases.origin_line]

    def likely_version(self) -> Version | None:
        named = parse_version(self.version)
        if named is not None or self.phases.is_dict_style is None:
            return named
        return OLDEST_OF_DICT_STYLE if self.phases.is_dict_style else NEWEST_OF_CLASS_STYLE

    def read(self) -> LogReading:
        phases = self.phases
        has_failed = phases.has_failed or _ended_in_exception(self.collector.crashes(), phases)
        phase = phases.phase
        if has_failed:
            phase = _phase_of_failure(self.own_faults(), phase, was_ready=phases.was_ready)
        elif phases.is_ready_by_bars:
            phase = Phase.SERVING
        line_count = self.splitter.number - 1 + bool(self.splitter.pending)
        if phase is None and line_count and self.collector.is_empty:
            phase = Phase.PARSING_ARGUMENTS
        spans = tuple(phases.spans)
        return LogReading(
            phase=phase,
            progress=spans[-1].progress if spans and spans[-1].phase is phase else None,
            is_ready=(phases.was_ready or phases.is_ready_by_bars) and not has_failed,
            has_failed=has_failed,
            phases=spans,
            engine_version=self.version,
            last_line_at=self.at,
            line_count=line_count,
            is_quiet=not phases.has_usual_lines,
            is_stopping=phases.is_stopping,
            was_cut_short=phases.was_cut_short,
        )

    def take_lines(self, first: int, lines: list[bytes], at: datetime | None) -> None:
        """Fold lines in; nearly all of them are passed by at the gate."""
        gate = self._gate
        scanned = 0
        for index, raw in enumerate(lines):
            key = gate(raw, first + index)
            if key == "":
                continue
            if at is None:
                self._scan_instants(lines, scanned, index)
                scanned = index + 1
            if key is None:
                self._take(raw, first + index, at)
            else:
                self.collector.repeat(key, first + index, self._instant(raw, at))
        if at is None:
            self._scan_instants(lines, scanned, len(lines) - 1)
        else:
            self.at = instant_of(lines[-1], utc_offset_s=self.utc_offset_s) or at

    def _gate(self, raw: bytes, number: int) -> str | None:
        """Return what a line comes to unread: "" nothing, a key one more of a notice; None when it must be read."""
        if self.is_unwell and raw.endswith(_ANSWERED) and b"GET /health" in raw:
            self.is_unwell = False
            self.healed_at = instant_of(raw, utc_offset_s=self.utc_offset_s)
        if self.collector.is_open:
            return None
        spot = raw.find(b" batch", 0, _BATCH_WITHIN)
        if spot > 0 and raw.startswith((b"Decode", b"refill"), spot - 6):
            self.batch_count += 1
            self.acceptance.note(raw, spot, number)
        elif not raw.endswith(_ANSWERED):
            return self._known(raw)
        return "" if self.phases.phase is Phase.SERVING else None

    def _known(self, raw: bytes) -> str | None:
        """Return what a line comes to that differs from an earlier one in its digits only; None when it is new."""
        if len(raw) > _SHAPE_WITHIN:
            is_dull = _REQUEST in raw[:_BATCH_WITHIN] or INTERESTING.search(raw, 0, _PIECE_LIMIT) is None
            return "" if is_dull else None
        shape = raw.translate(None, b"0123456789")
        known = self.shapes.get(shape)
        if known is None and INTERESTING.search(raw) is None:
            return self._remember(raw, "")
        return known

    def _remember(self, raw: bytes, key: str) -> str:
        if len(self.shapes) >= _SHAPES_LIMIT:
            self.shapes.clear()
        self.shapes[raw.translate(None, b"0123456789")] = key
        return key

    def _instant(self, raw: bytes, at: datetime | None) -> datetime | None:
        """Return the instant of a line; without one that of the line before, or when it arrived."""
        return self.at if at is None else instant_of(raw, utc_offset_s=self.utc_offset_s) or at

    def _scan_instants(self, lines: list[bytes], begin: int, end: int) -> None:
        """Find the last instant among the lines from `begin` to `end`."""
        for index in range(end, begin - 1, -1):
            found = instant_of(lines[index], utc_offset_s=self.utc_offset_s)
            if found is not None:
                self.at = found
                return

    def _take(self, raw: bytes, number: int, at: datetime | None) -> None:
        """Fold one physical line in, which may hold several."""
        when = self._instant(raw, at)
        cleaned = plain(raw)
        pieces = unwrapped(cleaned) if is_envelope(cleaned) else [cleaned.decode("utf-8", "replace")]
        held = [(piece, segment) for piece in pieces for segment in segments(piece[:_PIECE_LIMIT])]
        keys = [self._take_line(peel(segment, piece), number, when) for piece, segment in held]
        if len(keys) == 1 and keys[0] is not None and len(raw) <= _SHAPE_WITHIN:
            self._remember(raw, keys[0])

    def _take_line(self, line: LogLine, number: int, at: datetime | None) -> str | None:
        """Fold one line in; returns what the next of its shape comes to, None when that depends on what is going on."""
        phases, collector = self.phases, self.collector
        was_open = collector.is_open
        if self.version is None and (found := VERSION.search(line.text)):
            self.version = found[1] or found[2]
        scene = Scene(number, at, phases.phase, phases.was_ready, phases.is_stopping)
        sign = None if is_request(line.text) else phases.note(line, number, at)
        if sign is Sign.LAUNCH:
            self.shapes.clear()
            self.acceptance.note_arguments(line.whole or line.text)
            return None
        if sign is not None and not was_open and sign is not Sign.TRAFFIC:
            return None
        if is_benign(line.text) and not was_open:
            return ""
        is_end = is_fatal(line.text, was_ready=scene.was_ready)
        fatal = is_end and not phases.is_stopping
        belongs = collector.note(line, scene, is_fatal=fatal)
        if fatal:
            phases.fail()
        key: str | None = ""
        if not belongs and (fatal or is_trouble(line.text)):
            key = collector.add_notice(line, scene, is_fatal=fatal)
            if line.text.startswith("Health check failed"):
                self.is_unwell, self.healed_at, key = True, None, None
        return None if is_end or was_open or belongs or sign is not None else key


def _ended_in_exception(crashes: list[Fault], phases: StartPhases) -> bool:
    """Return whether an exception that nobody announced ended the start: nothing went on after it."""
    if phases.was_ready or phases.is_stopping:
        return False
    return any(crash.last_line > max(phases.progress_line, phases.origin_line - 1) for crash in crashes)


def _phase_of_failure(faults: list[Fault], phase: Phase | None, *, was_ready: bool) -> Phase | None:
    """Return the phase of the first failure: what its frames say where they say it, else where the log stood."""
    for fault in sorted(faults, key=_is_aftermath):
        if fault.kind is not FaultKind.NOTICE or fault.is_fatal:
            found = phase_of_frames(fault.frames, fault.scene.phase, was_ready=was_ready)
            return found or fault.scene.phase or phase or _phase_of_watchdog(faults)
    return phase


def _is_aftermath(fault: Fault) -> bool:
    return fault.kind is FaultKind.NOTICE and (fault.scene.phase is None or is_aftermath(fault.text))


def _phase_of_watchdog(faults: list[Fault]) -> Phase | None:
    """Return WARMING_UP when the scheduler's watchdog fired and no other batch was seen: it was the first."""
    return Phase.WARMING_UP if any("atchdog timeout (" in fault.text for fault in faults) else None
