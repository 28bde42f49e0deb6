"""Files that are no results: one error, its reason, and bounded memory and time."""

import copy
import gzip
import json
import math
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.benchmarks.finite import count, divided, finite, non_negative
from service.benchmarks.importing import ReadLimits, RejectionReason, ResultFileRejected, Upload, import_file
from service.benchmarks.metrics import metric_values
from tests.benchmarks.tool_files import (
    aiperf,
    as_bytes,
    evalscope_percentiles,
    evalscope_summary,
    genai_perf,
    guidellm,
    sglang_line,
    vllm,
)

R = RejectionReason
WHOLE = as_bytes(vllm())
LLMPERF = {"version": "2023-08-31", "name": "m_550_150_summary", "model": "m", "results_ttft_s_mean": 0.5}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", R.EMPTY),
        (b" \n\t\n", R.EMPTY),
        (b"\xef\xbb\xbf", R.EMPTY),
        (b"<!DOCTYPE html><html><body>502</body></html>", R.HTML),
        (b"\n  <?xml version='1.0'?><a/>", R.HTML),
        (gzip.compress(WHOLE), R.COMPRESSED),
        (b"PK\x03\x04" + WHOLE, R.COMPRESSED),
        (b"SQLite format 3\x00" + b"\x80\x04\x95" * 100, R.DATABASE),
        ("{}".encode("utf-16"), R.NOT_TEXT),
        (b'{"a": "\xff\xfe"}', R.NOT_TEXT),
        (WHOLE[: len(WHOLE) // 2], R.TRUNCATED),
        (WHOLE[:-1], R.TRUNCATED),
        (sglang_line()[:-20], R.TRUNCATED),
        (sglang_line() + b"\n" + sglang_line()[:100], R.TRUNCATED),
        (b"completed: 5\n", R.NOT_JSON),
        (WHOLE + b"\nnot json\n", R.NOT_JSON),
        (b'{"a": ' + b"9" * 5000 + b"}", R.NOT_JSON),
        (b"[" * 100_000, R.TOO_DEEP),
        (b'{"a":' * 41 + b"1" + b"}" * 41, R.TOO_DEEP),
        (WHOLE + b"\n" + b"[" * 1000, R.TOO_DEEP),
        (b"[" + b"[]," * 250_001 + b"[]]", R.TOO_MANY_VALUES),
        (b"[" + b"1," * 2_000_001 + b"1]", R.TOO_MANY_VALUES),
        (b"{}\n" * 1001, R.TOO_MANY_VALUES),
        (as_bytes(LLMPERF), R.UNKNOWN_TOOL),
        (b"{}", R.UNKNOWN_TOOL),
        (b"null", R.UNKNOWN_TOOL),
        (b"3", R.UNKNOWN_TOOL),
        (b'"text"', R.UNKNOWN_TOOL),
        (b"[1, 2]", R.UNKNOWN_TOOL),
        (WHOLE + b"\n" + sglang_line(), R.UNKNOWN_TOOL),
        (as_bytes({**guidellm(), "metadata": {"version": 1, "guidellm_version": "0.4.0"}}), R.UNSUPPORTED_VERSION),
        (as_bytes({**guidellm(), "benchmarks": []}), R.NO_RESULT),
        (as_bytes({**aiperf(), "schema_version": "2.0"}), R.UNSUPPORTED_VERSION),
        (as_bytes(evalscope_percentiles()), R.NO_RESULT),
        (as_bytes(evalscope_summary()) + b"\n" + as_bytes(evalscope_summary()), R.SEVERAL_RESULTS),
    ],
)
def test_a_wrong_file_is_refused_with_its_reason(content: bytes, reason: RejectionReason) -> None:
    with pytest.raises(ResultFileRejected) as caught:
        import_file(content)
    assert caught.value.reason is reason
    assert caught.value.detail
    assert caught.value.remedy


def test_only_evalscope_comes_in_two_files() -> None:
    with pytest.raises(ResultFileRejected, match="two files"):
        import_file(WHOLE, companion=as_bytes({"a": 1}))


def test_an_unknown_object_is_named_by_its_first_fields() -> None:
    with pytest.raises(ResultFileRejected, match="version, name, model, results_ttft_s_mean"):
        import_file(as_bytes(LLMPERF))


def test_a_body_of_two_gigabytes_is_refused_at_the_limit() -> None:
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        while sent < 2 * 1024**3:
            sent += 1024 * 1024
            yield b" " * (1024 * 1024)

    def fill(upload: Upload) -> None:
        for piece in pieces():
            upload.add(piece)

    upload = Upload()
    with pytest.raises(ResultFileRejected) as caught:
        fill(upload)
    assert caught.value.reason is R.TOO_LARGE
    assert sent == 33 * 1024 * 1024
    assert upload.content == b""


def test_bytes_that_are_there_already_are_measured_too() -> None:
    with pytest.raises(ResultFileRejected) as caught:
        import_file(WHOLE, limits=ReadLimits(max_bytes=100))
    assert caught.value.reason is R.TOO_LARGE


@pytest.mark.parametrize(
    "bomb",
    [
        b"[" * 400_000,
        b"[" + b"[]," * 130_000 + b"[]]",
        b"[" + b"1," * 200_000 + b"]",
        b"[" + b"1.5e1," * 66_000 + b"1]",
        b'{"a":' * 80_000,
        b'"' * 400_000,
        b'"' + b'\\"' * 200_000,
        b'["' + b"\\\\" * 200_000,
        b"[" + b'"a1",' * 80_000 + b"1]",
    ],
)
def test_a_bomb_costs_a_bounded_multiple_of_its_size(bomb: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ResultFileRejected):
            import_file(bomb, limits=ReadLimits(max_containers=3000, max_values=100_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(bomb)


def test_per_request_arrays_are_not_kept() -> None:
    document = {**vllm(), "mine": list(range(1000)), "note": "x" * 10_000, "nul": "a\x00b"}
    (mapped,) = import_file(as_bytes(document)).results
    assert mapped.unmapped["mine"] == "(1000 entries, not kept)"
    assert mapped.unmapped["note"] == "x" * 500
    assert mapped.unmapped["nul"] == "ab"


SOURCES: list[dict[str, Any]] = [
    json.loads(sglang_line()),
    vllm(),
    guidellm(),
    aiperf(),
    genai_perf(),
    evalscope_summary(),
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=5),
    st.just([]),
    st.just({}),
    st.just([{}]),
    st.just("\ud800\x00"),
    st.just(-1),
    st.just(10**300),
)


def spoil(node: object, draw: st.DrawFn, depth: int = 0) -> Any:
    """Return a copy of a document with some of its values replaced."""
    if depth and draw(st.integers(0, 14)) == 0:
        return draw(VALUES)
    if isinstance(node, dict):
        return {key: spoil(value, draw, depth + 1) for key, value in node.items()}
    if isinstance(node, list):
        return [spoil(value, draw, depth + 1) for value in node[:3]]
    return node


@st.composite
def spoiled_documents(draw: st.DrawFn) -> bytes:
    return json.dumps(spoil(draw(st.sampled_from(SOURCES)), draw)).encode()


@settings(max_examples=100, deadline=None)
@given(spoiled_documents())
def test_whatever_a_field_holds_the_result_is_sane_or_refused(content: bytes) -> None:
    try:
        file = import_file(content)
    except ResultFileRejected:
        return
    for mapped in file.results:
        text = mapped.result.model_dump_json() + json.dumps(mapped.unmapped, allow_nan=False)
        assert "\\u0000" not in text
        text.encode()


def with_each_text_spoiled(node: Any) -> Iterator[Any]:
    """Yield a document as often as it has texts, each time with another one that no database takes."""
    if isinstance(node, str):
        yield "\ud800\x00" + node
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        for spoiled in with_each_text_spoiled(value):
            changed = copy.copy(node)
            changed[key] = spoiled
            yield changed


@pytest.mark.parametrize("source", SOURCES)
def test_a_text_that_no_database_takes_is_kept_without_what_is_wrong_with_it(source: dict[str, Any]) -> None:
    for document in with_each_text_spoiled(source):
        with suppress(ResultFileRejected):
            for mapped in import_file(json.dumps(document).encode()).results:
                text = mapped.result.model_dump_json() + json.dumps(mapped.unmapped, ensure_ascii=False)
                assert "\x00" not in text.encode().decode()
                assert "\\u0000" not in text


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_without_another_error(content: bytes) -> None:
    with pytest.raises(ResultFileRejected):
        import_file(content)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, 1e300, True, "3", None, [], {}])
def test_what_is_not_a_finite_number_is_none(value: object) -> None:
    assert finite(value) is None
    assert non_negative(value) is None
    assert count(value) is None


def test_numbers_pass() -> None:
    assert (finite(-1.5), non_negative(-1.5), count(3.0), count(3.5)) == (-1.5, None, 3, None)
    assert (divided(1, 0), divided(None, 1), divided(3, 2)) == (None, None, 1.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"duration": 1e-320},
        {"duration": 1e-300, "total_output_tokens": 10**15},
        {"median_tpot_ms": 1e-310},
        {"duration": 1e-320, "ttfts": [0.0] + [0.1] * 11},
        {"duration": 10**400, "ttfts": [0.0] + [0.1] * 11},
    ],
)
def test_a_quotient_beyond_all_numbers_is_unknown(changes: dict[str, Any]) -> None:
    (mapped,) = import_file(sglang_line(**changes)).results
    assert all(math.isfinite(value) for value in metric_values(mapped.result).values())
