"""A result file of unknown kind to results in our schema."""

import hashlib
from collections.abc import Mapping

from service.benchmarks.importing.aiperf_results import is_aiperf, map_aiperf
from service.benchmarks.importing.documents import DEFAULT_LIMITS, Json, ReadLimits, parse_documents
from service.benchmarks.importing.evalscope_results import (
    is_evalscope_percentiles,
    is_evalscope_summary,
    map_evalscope,
)
from service.benchmarks.importing.fields import clean_text
from service.benchmarks.importing.guidellm_results import is_guidellm, map_guidellm
from service.benchmarks.importing.mapped import PARSER_VERSION, ImportedFile, Mapped, ResultKind
from service.benchmarks.importing.rejection import RejectionReason, ResultFileRejected
from service.benchmarks.importing.sglang_results import map_sglang
from service.benchmarks.importing.vllm_results import is_vllm, map_vllm
from service.sglang.bench_results import is_serving_result


def import_file(content: bytes, *, companion: bytes | None = None, limits: ReadLimits = DEFAULT_LIMITS) -> ImportedFile:
    """Return all results of a file that another run, or another tool, has written.

    `companion` is evalscope's second file, in either order; no other tool has one. Reading a file at the limit takes
    some seconds of CPU: call it in a thread. Raises `ResultFileRejected`, and nothing else, whatever the bytes are.
    """
    documents = parse_documents(content, limits)
    others = parse_documents(companion, limits) if companion is not None else ()
    kind, results = _mapped(documents, others)
    if not results:
        raise ResultFileRejected(RejectionReason.NO_RESULT, f"the file is {kind}, but it holds no result")
    sha256 = hashlib.sha256(content).hexdigest()
    results = tuple(_with_source(item, sha256) for item in results)
    return ImportedFile(kind=kind, sha256=sha256, size_bytes=len(content), results=results)


def _mapped(documents: tuple[Json, ...], others: tuple[Json, ...]) -> tuple[ResultKind, tuple[Mapped, ...]]:
    tables = [item for item in (*documents, *others) if is_evalscope_percentiles(item)]
    summaries = [item for item in (*documents, *others) if is_evalscope_summary(item)]
    if tables and not summaries:
        detail = "this is evalscope's table of percentiles: give benchmark_summary.json too"
        raise ResultFileRejected(RejectionReason.NO_RESULT, detail)
    if summaries:
        return ResultKind.EVALSCOPE, _evalscope(summaries, tables)
    if others:
        raise ResultFileRejected(RejectionReason.UNKNOWN_TOOL, "only evalscope's results come in two files")
    kinds = set(map(_kind, documents))
    if len(kinds) != 1:
        raise ResultFileRejected(RejectionReason.UNKNOWN_TOOL, "the file mixes results of several tools")
    kind = kinds.pop()
    mapped = tuple(result for item in documents if isinstance(item, Mapping) for result in _map(kind, item))
    return kind, mapped


def _evalscope(summaries: list[Json], tables: list[Json]) -> tuple[Mapped, ...]:
    if len(summaries) > 1 or len(tables) > 1:
        raise ResultFileRejected(RejectionReason.SEVERAL_RESULTS, "give one summary and one table of evalscope")
    summary = summaries[0]
    assert isinstance(summary, Mapping)  # noqa: S101  is_evalscope_summary asked
    return (map_evalscope(summary, tables[0] if tables else None),)


def _kind(document: Json) -> ResultKind:
    if not isinstance(document, Mapping):
        detail = f"the file holds a JSON {_json_name(document)} where a result is an object"
        raise ResultFileRejected(RejectionReason.UNKNOWN_TOOL, detail)
    if is_guidellm(document):
        return ResultKind.GUIDELLM
    if is_aiperf(document):
        has_version = bool(document.get("schema_version") or document.get("aiperf_version"))
        return ResultKind.AIPERF if has_version else ResultKind.GENAI_PERF
    if is_serving_result(document):
        return ResultKind.SGLANG
    if is_vllm(document):
        return ResultKind.VLLM
    seen = ", ".join(clean_text(name)[:40] for name in list(document)[:6]) or "none"
    detail = f"no known tool writes such an object; its first fields are: {seen}"
    raise ResultFileRejected(RejectionReason.UNKNOWN_TOOL, detail)


def _map(kind: ResultKind, document: Mapping[str, Json]) -> tuple[Mapped, ...]:
    match kind:
        case ResultKind.GUIDELLM:
            return map_guidellm(document)
        case ResultKind.AIPERF | ResultKind.GENAI_PERF:
            return (map_aiperf(document),)
        case ResultKind.SGLANG:
            return (map_sglang(document),)
        case ResultKind.VLLM:
            return (map_vllm(document),)
        case ResultKind.EVALSCOPE:
            return (map_evalscope(document),)


def _with_source(item: Mapped, sha256: str) -> Mapped:
    client = item.result.client.model_copy(update={"raw_sha256": sha256, "parser_version": PARSER_VERSION})
    return Mapped(item.result.model_copy(update={"client": client}), item.unmapped, item.notes)


def _json_name(document: Json) -> str:
    match document:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return "array"
