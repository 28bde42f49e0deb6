"""The border: what a node answers becomes values, and what it should not answer becomes an error of its own."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.clock import from_epoch
from service.errors import NodeUnreachable, RemoteCommandFailed, RemoteError
from service.remote import answers
from service.remote.messages import Beat, GpuHoldersFact
from service.remote.sessions import LINE_LIMIT_BYTES, LineFeed
from service.servers.observation import ListenerOwner


@pytest.mark.parametrize(
    "line",
    [
        {},
        [],
        None,
        {"k": "unknown"},
        {"k": "beat"},
        {"k": "beat", "at": "noon"},
        {"k": "log", "launch": "ln_1", "offset": 0, "b64": "not base64!"},
        {"k": "fact", "launch": "ln_1", "at": 0, "process": {"state": "confused"}},
        {"k": "fact", "launch": "ln_1", "at": 0, "listener": {"owner": "ours"}},
        {"k": "gpus", "at": 0, "holders": [{}], "error": None},
    ],
)
def test_a_line_of_another_shape_is_a_value_error(line: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        answers.fact(line)


def test_parts_that_did_not_change_are_none() -> None:
    fact = answers.fact(
        {"k": "fact", "launch": "ln_1", "at": 0, "listener": {"owner": "none", "pid": None, "command": None}}
    )
    assert (fact.process, fact.effort) == (None, None)  # type: ignore[union-attr]
    assert fact.listener.owner is ListenerOwner.NONE  # type: ignore[union-attr]
    beat = answers.fact({"k": "beat", "at": 1})
    assert isinstance(beat, Beat)
    assert (beat.disk_free_mib, beat.shm_free_mib) == (None, None)
    gpus = answers.fact({"k": "gpus", "at": 1, "holders": [], "error": "stuck"})
    assert gpus == GpuHoldersFact(from_epoch(1), (), "stuck")


@pytest.mark.parametrize(
    "answer", [None, [], {"pids": []}, {"pids": ["x"], "process": {}}, {"pids": [1], "process": []}]
)
def test_an_answer_of_another_shape_is_a_remote_error(answer: Any) -> None:
    with pytest.raises(RemoteCommandFailed, match="cannot be read"):
        answers.read(answers.signalled, answer)


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"{}", b'{"result": []}', b'{"refused": "for no known reason", "detail": "x"}']
)
def test_a_garbled_answer_is_a_remote_error(line: bytes) -> None:
    with pytest.raises(RemoteCommandFailed, match="cannot be read"):
        answers.read(partial(answers.result, "verify"), line)


class Heard:
    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.closed: list[RemoteError | None] = []
        self.feed = LineFeed("node", self.lines.append, self.closed.append)


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"a", b"bc\n", b"\n", b"d\ne", b""]), max_size=12), st.data())
def test_any_cutting_gives_the_same_lines(pieces: list[bytes], data: Any) -> None:
    whole = b"".join(pieces)
    heard = Heard()
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        assert heard.feed.receive(whole[:size], is_stderr=False)
        whole = whole[size:]
    assert heard.lines == b"".join(pieces).split(b"\n")[:-1]


def test_a_line_without_an_end_has_a_limit() -> None:
    heard = Heard()
    while heard.feed.receive(b"x" * 2**20, is_stderr=False):
        assert len(heard.feed._parts) <= LINE_LIMIT_BYTES // 2**20
    heard.feed.finish(None, None)
    assert isinstance(heard.closed[0], RemoteCommandFailed)


def test_a_stream_ends_once_and_says_why() -> None:
    heard = Heard()
    heard.feed.finish(None, OSError("reset"))
    heard.feed.finish(0, None)
    assert [type(error) for error in heard.closed] == [NodeUnreachable]
    heard = Heard()
    heard.feed.receive(b"x" * 10_000 + b"last words", is_stderr=True)
    heard.feed.finish(2, None)
    assert isinstance(heard.closed[0], RemoteCommandFailed)
    assert heard.closed[0].detail.endswith("last words")
    assert len(heard.closed[0].detail) < 5000
