"""Secrets never leave in a log, and the log is the same whatever the pieces it is read in."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.remote.on_node.log_file import LogFile, _lines, _start_of_tail
from service.remote.on_node.masking import Masker, find_masker

SECRETS = st.lists(st.text("ab-'é", min_size=4, max_size=9), max_size=3)
PIECES = st.lists(st.text("ab-'é\n\r", max_size=12), max_size=8)


def launch(tmp_path: Path, *, secrets: list[str], log: bytes) -> LogFile:
    (tmp_path / "secrets").write_text("".join(json.dumps(secret) + "\n" for secret in secrets))
    (tmp_path / "log").write_bytes(log)
    return LogFile(str(tmp_path))


@settings(deadline=None, max_examples=60)
@given(SECRETS, PIECES, st.data())
def test_masking_keeps_the_length_hides_every_occurrence_and_touches_nothing_else(
    secrets: list[str], pieces: list[str], data: Any
) -> None:
    mixed = [part for piece in pieces for part in (piece, data.draw(st.sampled_from([*secrets, ""])))]
    text = "".join(mixed).encode()
    masked = Masker(secrets).mask(text)
    assert len(masked) == len(text)
    assert not [secret for secret in secrets if secret.encode() in masked]
    assert all(after in (before, ord("*")) for before, after in zip(text, masked, strict=True))
    if not any(secret.encode() in text or repr(secret)[1:-1].encode() in text for secret in secrets):
        assert masked == text


@pytest.mark.parametrize(
    ("secret", "written"),
    [
        ('it\'s a "key"', repr('it\'s a "key"')),
        ("clé-secrète", json.dumps("clé-secrète")),
        ("a b&c=d", "key=a%20b%26c%3Dd"),
        ("first-line\nsecond-line", "second-line"),
        ("tab\there", r"tab\there"),
    ],
)
def test_a_secret_is_hidden_also_as_python_json_and_urls_write_it(secret: str, written: str) -> None:
    masked = Masker([secret]).mask_text(written)
    assert "*" in masked
    assert not any(part in masked for part in ('key"', "secr", "%26", "second", "here"))


def test_overlapping_occurrences_are_hidden_wholly() -> None:
    assert Masker(["abab"]).mask(b"xabababx") == b"x******x"
    assert Masker(["abcd", "cdef"]).mask(b"abcdef") == b"******"


def test_what_may_become_a_secret_is_held_back() -> None:
    masker = Masker(["secret", "retina"])
    assert masker.held_back(b"x sec") == 3
    assert masker.held_back(b"x secret") == 3  # the beginning of the other one
    assert masker.held_back(b"x secre.") == 0
    assert Masker([]).held_back(b"anything") == 0


@settings(deadline=None, max_examples=60)
@given(SECRETS, PIECES, st.data())
def test_reading_in_any_pieces_while_it_grows_gives_what_reading_at_once_gives(
    tmp_path_factory: pytest.TempPathFactory, secrets: list[str], pieces: list[str], data: Any
) -> None:
    mixed = [part for piece in pieces for part in (piece, data.draw(st.sampled_from([*secrets, ""])))]
    text = "".join(mixed).encode()
    log = launch(tmp_path_factory.mktemp("log"), secrets=secrets, log=b"")
    said = b""
    written = 0
    while written < len(text) or data.draw(st.booleans()):
        written = min(written + data.draw(st.integers(1, 9)), len(text))
        Path(log.path).write_bytes(text[:written])
        said += log.read(len(said), data.draw(st.integers(1, 7)), is_final=False)
        assert not [secret for secret in secrets if secret.encode() in said]
    while part := log.read(len(said), 5, is_final=True):
        said += part
    held = Masker(secrets).held_back(text)
    expected = Masker(secrets).mask(text)
    assert said[: len(text) - held] == expected[: len(text) - held]
    assert said[len(text) - held :] == b"*" * held
    assert len(said) == len(text)


@settings(deadline=None, max_examples=60)
@given(st.text("ab\n", max_size=40), st.integers(0, 6))
def test_the_tail_is_the_last_lines(tmp_path_factory: pytest.TempPathFactory, text: str, lines: int) -> None:
    log = launch(tmp_path_factory.mktemp("log"), secrets=[], log=text.encode())
    expected = "".join(text.splitlines(keepends=True)[-lines:]) if lines else ""
    assert text[_start_of_tail(log, lines) :] == expected


def test_the_tail_of_a_large_log_reads_back_no_further_than_needed(tmp_path: Path) -> None:
    log = launch(tmp_path, secrets=[], log=b"x" * 3_000_000 + b"\n" + b"line\n" * 3)
    assert _start_of_tail(log, 3) == 3_000_001
    assert _start_of_tail(log, 4) == 0


def test_a_line_without_an_end_comes_in_parts_and_once(tmp_path: Path) -> None:
    log = launch(tmp_path, secrets=[], log=b"first\n" + b"y" * 3_000_000)
    parts = list(_lines(log, 0, is_final=True))
    assert b"".join(line for line, _ in parts) == b"first\n" + b"y" * 3_000_000
    assert parts[-1][1] == 3_000_006
    assert next(line for line, _ in _lines(log, 0, is_final=False)) == b"first\n"


def test_nothing_is_read_before_the_secrets_are_known(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"sk-secret")
    log = LogFile(str(tmp_path))
    assert find_masker(str(tmp_path)) is None
    assert log.read(0, 100, is_final=True) == b""
    (tmp_path / "secrets").write_bytes(b"\xff{garbled")
    assert log.read(0, 100, is_final=True) == b""
    (tmp_path / "secrets").write_text('"sk-secret"\n')
    assert log.read(0, 100, is_final=True) == b"*********"
