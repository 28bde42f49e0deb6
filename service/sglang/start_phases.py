"""How far a start has come: folds the marks of its log into phases with their progress, and into ready or not.

Ranks print the same marks, each a little later: the furthest one leads, stragglers do not turn the phase back.
"""

import re
from dataclasses import dataclass, field, replace
from datetime import datetime

from service.sglang.faults import TEXT_LIMIT, WHOLE_LIMIT, Entry
from service.sglang.log_lines import LogLine
from service.sglang.phases import Phase
from service.sglang.startup_marks import (
    BARE_BAR,
    GRAPH_BAR,
    KERNEL_BAR,
    LISTEN_PORT,
    ONE_NODE,
    PORT_WITHIN,
    SHARD_BAR,
    Mark,
    Sign,
    mark_of,
)

SPANS_LIMIT = 100
RANKS_LIMIT = 4_096
TRAFFIC_MEANS_SERVING = 3
"""So many decode lines are never a warm-up's: it asks for 8 tokens, and a line comes every 40 steps."""

_LOADING = (Phase.LOADING_WEIGHTS, Phase.LOADING_DRAFT_WEIGHTS)
_BEFORE_WEIGHTS = (
    None,
    Phase.PARSING_ARGUMENTS,
    Phase.RESOLVING_CONFIG,
    Phase.SPAWNING,
    Phase.DISTRIBUTED_INIT,
)
_BEYOND_WEIGHTS = (Phase.ALLOCATING_KV_CACHE, Phase.COMPILING_KERNELS, Phase.CAPTURING_GRAPHS)
_BEFORE_LAUNCH = (None, Phase.PARSING_ARGUMENTS)
_AFTER_BIND = (Phase.WARMING_UP, Phase.SERVING)


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` units: "shards", "graphs" or "kernels"."""

    done: int
    total: int
    unit: str


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """One stay in a phase; phases repeat. An instant is None when the log tells no time."""

    phase: Phase
    started_at: datetime | None
    ended_at: datetime | None
    progress: Progress | None


@dataclass(slots=True)
class _Rank:
    position: int = 0
    phase: Phase | None = None
    has_loaded: bool = False
    """Whether it was seen beyond its first weights: what it loads next is the draft's."""


@dataclass(slots=True)
class StartPhases:
    """The fold. It is mutable: `copy` before a look that must not count."""

    phase: Phase | None = None
    spans: list[PhaseSpan] = field(default_factory=list)
    has_failed: bool = False
    is_stopping: bool = False
    progress_line: int = 0
    """The line of the last sign that the start goes on."""
    launch_line: int = 0
    origin_line: int = 0
    """The line where this run begins, when the log holds earlier ones."""
    traffic: int = 0
    ready_count: int = 0
    has_usual_lines: bool = False
    """Whether any line was seen that the engine writes at level info."""
    ports: frozenset[str] = frozenset()
    is_dict_style: bool | None = None
    """How the engine printed its arguments, which tells old versions from new."""
    is_one_node: bool = False
    was_cut_short: bool = False
    entered_by: Entry | None = None
    """The line that began the present phase: the last mark, when nothing follows."""
    _ranks: dict[str, _Rank] = field(default_factory=dict)
    _leader: int = 0

    def copy(self) -> "StartPhases":
        """Return an independent fold with the same content."""
        ranks = {name: replace(rank) for name, rank in self._ranks.items()}
        return replace(self, spans=list(self.spans), _ranks=ranks)

    @property
    def was_ready(self) -> bool:
        """Whether every server of the stream has said that it is ready, or serves."""
        if self.ready_count:
            return self.ready_count >= len(self.ports)
        return self.is_serving_unannounced

    @property
    def is_serving_unannounced(self) -> bool:
        """Whether it serves though no ready line was seen: a log that begins later, or one of a quiet server."""
        return self.traffic >= TRAFFIC_MEANS_SERVING or (self.traffic > 0 and not self.launch_line)

    @property
    def is_ready_by_bars(self) -> bool:
        """Whether a server that logs warnings only has drawn its last graph: all that such a log can say."""
        if self.has_usual_lines or self.phase not in {Phase.CAPTURING_GRAPHS, Phase.WARMING_UP} or not self.spans:
            return False
        progress = self.spans[-1].progress
        return self.phase is Phase.WARMING_UP or (progress is not None and progress.done >= progress.total)

    def fail(self) -> None:
        """Note that a process of the engine has ended in an error: what others still print changes no phase."""
        self.has_failed = True

    def note_traffic(self, count: int, line: int, at: datetime | None) -> None:
        """Count batches that were decoded."""
        self.traffic += count
        self.progress_line = line
        if self.is_serving_unannounced and not self.has_failed:
            self._enter(Phase.SERVING, at)

    def note(self, said: LogLine, line: int, at: datetime | None) -> Sign | None:
        """Fold one line in; returns what it said, None when it bears no mark."""
        before = self.phase
        sign = self._note(said.text, said.rank, line, at)
        if self.phase is not before:
            self.entered_by = Entry(line, said.text[:TEXT_LIMIT], said.whole[:WHOLE_LIMIT])
        return sign

    def _note(self, text: str, rank: str, line: int, at: datetime | None) -> Sign | None:
        if self._note_bar(text, line, at):
            return Sign.NONE
        mark = mark_of(text)
        if mark is None:
            return None
        self.has_usual_lines = self.has_usual_lines or mark.is_usual
        if mark.sign is Sign.LAUNCH:
            self._launch(text, line, at)
        elif mark.sign is Sign.STOPPING:
            self.is_stopping = self.is_stopping or not self.has_failed
        elif mark.sign is Sign.TRAFFIC:
            self.note_traffic(1, line, at)
        elif mark.sign is Sign.SHUTDOWN:
            self.was_cut_short = not self.was_ready and self.phase not in _BEFORE_LAUNCH
        elif not self.has_failed:
            self.progress_line = line
            self._pass(mark, rank, at)
        return mark.sign

    def _launch(self, text: str, line: int, at: datetime | None) -> None:
        port = LISTEN_PORT.search(text, 0, PORT_WITHIN)
        name = port[1] if port else ""
        is_known = name in self.ports or not self.ports
        if is_known and (self.was_ready or self.has_failed or self.is_stopping):
            self._start_over()
            self.origin_line = line
        self.ports |= {name}
        self.is_dict_style = "server_args={" in text
        self.is_one_node = ONE_NODE.search(text) is not None
        self.launch_line = self.progress_line = line
        if not self.has_failed and self.phase in {*_BEFORE_LAUNCH, Phase.RESOLVING_CONFIG}:
            self._enter(Phase.SPAWNING, at)

    def _start_over(self) -> None:
        """Forget the earlier run: the same port is launched again in one log."""
        fresh = StartPhases()
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))

    def _pass(self, mark: Mark, rank: str, at: datetime | None) -> None:
        if mark.sign is Sign.READY:
            self.ready_count += 1
            if self.was_ready:
                self._enter(Phase.SERVING, at)
        elif mark.phase is None or self.phase is Phase.SERVING:
            return
        elif mark.is_of_rank:
            self._pass_of_rank(mark, rank, at)
        elif mark.phase in {*_BEFORE_LAUNCH, Phase.RESOLVING_CONFIG}:
            if self.phase in _BEFORE_LAUNCH:
                self._enter(mark.phase, at)
        elif not (mark.phase is Phase.BINDING_HTTP and self.phase in _AFTER_BIND):
            self._enter(mark.phase, at)

    def _pass_of_rank(self, mark: Mark, name: str, at: datetime | None) -> None:
        if self.phase in _AFTER_BIND or mark.phase is None:
            return
        rank = self._ranks.get(name)
        if rank is None:
            if len(self._ranks) >= RANKS_LIMIT:
                return
            rank = self._ranks[name] = _Rank()
        phase = mark.phase
        if mark.sign is Sign.LOADED:
            rank.has_loaded = True
            return
        if rank.phase in _BEYOND_WEIGHTS:
            rank.has_loaded = True
        if mark.sign in {Sign.WEIGHTS, Sign.GROUP_INIT} and rank.has_loaded:
            phase = Phase.LOADING_DRAFT_WEIGHTS
        if phase is Phase.COMPILING_KERNELS and self.phase is Phase.CAPTURING_GRAPHS:
            return
        if phase is not rank.phase:
            rank.phase = phase
            rank.position += 1
        if rank.position > self._leader:
            self._leader = rank.position
            self._enter(phase, at)

    def _note_bar(self, text: str, line: int, at: datetime | None) -> bool:
        if "%" not in text:
            return False
        if match := SHARD_BAR.search(text):
            self._note_shards(match, at)
        elif match := GRAPH_BAR.search(text):
            self._note_graphs(match, at)
        elif self.phase is Phase.CAPTURING_GRAPHS and (match := BARE_BAR.match(text)):
            self._advance(match, "graphs")
        elif self.phase is Phase.COMPILING_KERNELS and (match := KERNEL_BAR.search(text)):
            self._advance(match, "kernels")
        else:
            return False
        if not self.has_failed:
            self.progress_line = line
        return True

    def _note_shards(self, match: re.Match[str], at: datetime | None) -> None:
        if self.has_failed:
            return
        if self.phase in _BEFORE_WEIGHTS:
            self._enter(Phase.LOADING_WEIGHTS, at)
        elif self.phase is Phase.CAPTURING_GRAPHS and not self.has_usual_lines:
            self._enter(Phase.LOADING_DRAFT_WEIGHTS, at)
        if self.phase in _LOADING:
            self._advance(match, "shards")

    def _note_graphs(self, match: re.Match[str], at: datetime | None) -> None:
        if self.has_failed:
            return
        if self.phase not in {Phase.CAPTURING_GRAPHS, Phase.BINDING_HTTP, *_AFTER_BIND}:
            self._enter(Phase.CAPTURING_GRAPHS, at)
        if self.phase is Phase.CAPTURING_GRAPHS:
            self._advance(match, "graphs")

    def _advance(self, match: re.Match[str], unit: str) -> None:
        groups = [int(number) for number in match.groups() if number is not None]
        if self.spans and groups[1] > 0 and not self.has_failed:
            self.spans[-1] = replace(self.spans[-1], progress=Progress(groups[0], groups[1], unit))

    def _enter(self, phase: Phase, at: datetime | None) -> None:
        if phase is self.phase:
            return
        self.phase = phase
        if self.spans:
            self.spans[-1] = replace(self.spans[-1], ended_at=at)
        if len(self.spans) == SPANS_LIMIT:
            self.spans.pop()
        self.spans.append(PhaseSpan(phase, at, None, None))
