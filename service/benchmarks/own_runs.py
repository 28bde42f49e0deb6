"""Runs that Vigil makes itself: from a workload to the client's command, from the client's file to a result."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from service.benchmarks.finite import divided
from service.benchmarks.importing.documents import DEFAULT_LIMITS, ReadLimits, parse_documents
from service.benchmarks.importing.mapped import PARSER_VERSION, Mapped, ResultKind, said
from service.benchmarks.importing.rejection import RejectionReason, ResultFileRejected
from service.benchmarks.importing.sglang_results import map_sglang
from service.benchmarks.rates import per_gpu
from service.benchmarks.results import (
    AcceptScope,
    ClientProvenance,
    HostProvenance,
    LoadFacts,
    LoadMode,
    Result,
    ServerProvenance,
    Slo,
    SpecDecode,
    Totals,
    WorkloadFacts,
    status_of,
)
from service.benchmarks.workload import FileLayout, LoadPoint, NodeFile, RandomIds, SharedPrefix, Workload
from service.sglang.bench_client import (
    ClientCommand,
    ClientRun,
    FilePrompts,
    RandomIdsPrompts,
    SharedPrefixPrompts,
    client_command,
)
from service.sglang.bench_results import is_serving_result


@dataclass(frozen=True, slots=True)
class Target:
    """The server that a run measures, as the client on its node reaches it."""

    host: str
    port: int
    python: str
    """The server's own Python: the client comes with the engine."""
    engine_version: str | None
    model_path: str
    served_model_name: str
    tokenizer_path: str | None = None


@dataclass(frozen=True, slots=True)
class RepeatContext:
    """Which repeat of which point a result is of, and everything known around it that the file does not tell."""

    point: LoadPoint
    repeat_index: int
    run_id: str
    started_at: datetime
    ended_at: datetime
    argv: tuple[str, ...]
    server: ServerProvenance
    host: HostProvenance
    dataset_sha256: str | None = None
    """Of the file of prompts, as it was on the node at this run."""


def run_command(
    workload: Workload, point: LoadPoint, target: Target, *, repeat_index: int, output_file: str, tag: str
) -> ClientCommand:
    """Return the command of one repeat of one point; `output_file` must not exist yet."""
    run = ClientRun(
        host=target.host,
        port=target.port,
        model_path=target.model_path,
        served_model_name=target.served_model_name,
        tokenizer_path=target.tokenizer_path,
        prompts=_prompts(workload),
        num_prompts=point.num_prompts,
        seed=workload.seed_for(repeat_index, point_index=point.index),
        warmup_requests=point.warmup_requests,
        output_file=output_file,
        max_concurrency=point.concurrency,
        request_rate_rps=point.rate_rps,
        has_flush=workload.flush_cache,
        has_ignore_eos=workload.ignore_eos,
        goodput_ms=workload.goodput.by_client_name() if workload.goodput else {},
        tag=tag,
    )
    return client_command(run, python=target.python, engine_version=target.engine_version)


def read_own_result(
    content: bytes, workload: Workload, context: RepeatContext, *, limits: ReadLimits = DEFAULT_LIMITS
) -> Mapped:
    """Return the result of one repeat, with all that its file does not tell.

    The file must hold exactly one line: the client appends, so a second one means that something else wrote to it.
    Raises `ResultFileRejected`.
    """
    documents = parse_documents(content, limits)
    if len(documents) != 1:
        detail = f"the file of one repeat holds {len(documents)} results: another run wrote to it"
        raise ResultFileRejected(RejectionReason.SEVERAL_RESULTS, detail)
    document = documents[0]
    if not isinstance(document, dict) or not is_serving_result(document):
        raise ResultFileRejected(RejectionReason.NO_RESULT, "the client wrote no result of a run")
    mapped = map_sglang(document)
    result = _completed(mapped.result, workload, context, hashlib.sha256(content).hexdigest())
    return Mapped(result, mapped.unmapped, said([*mapped.notes, _short_dataset(result, context.point)]))


def _prompts(workload: Workload) -> RandomIdsPrompts | FilePrompts | SharedPrefixPrompts:
    dataset = workload.dataset
    match dataset:
        case RandomIds():
            return RandomIdsPrompts(dataset.input_tokens, dataset.output_tokens)
        case NodeFile():
            return FilePrompts(str(dataset.layout), dataset.path, dataset.output_tokens)
        case SharedPrefix():
            return SharedPrefixPrompts(
                groups=dataset.groups,
                prompts_per_group=dataset.prompts_per_group,
                prefix_tokens=dataset.prefix_tokens,
                question_tokens=dataset.question_tokens,
                output_tokens=dataset.output_tokens,
            )
        case _:
            assert_never(dataset)


def _completed(result: Result, workload: Workload, context: RepeatContext, raw_sha256: str) -> Result:
    """Return the result with identity, provenance and what was asked; the counts of the file decide the status."""
    sent = result.totals.requests_sent
    totals = result.totals if sent is not None else _with_expected(result, context.point)
    filled = result.model_copy(
        update={
            "run_id": context.run_id,
            "repeat_index": context.repeat_index,
            "started_at": context.started_at,
            "ended_at": context.ended_at,
            "is_imported": False,
            "status": status_of(totals),
            "totals": totals,
            "server": _with_told(context.server, result.server),
            "host": context.host,
            "client": ClientProvenance(
                tool="sglang",
                tool_version=context.server.engine_version,
                argv=context.argv,
                placement="same_host",
                raw_sha256=raw_sha256,
                raw_format=ResultKind.SGLANG,
                parser_version=PARSER_VERSION,
            ),
            "workload": _workload_facts(result, workload, context),
            "load": _load_facts(result, context.point),
            "slo": _slo(workload),
            "spec_decode": _own_accept_length(result, workload),
        }
    )
    return per_gpu(filled, context.host.gpu_count_used)


def _with_expected(result: Result, point: LoadPoint) -> Totals:
    completed = result.totals.requests_completed or 0
    failed = max(point.num_prompts - completed, 0)
    return result.totals.model_copy(update={"requests_sent": point.num_prompts, "requests_failed": failed})


def _with_told(known: ServerProvenance, told: ServerProvenance) -> ServerProvenance:
    """Return what is known of the server, filled up with what the client was told by it."""
    blank = ServerProvenance()
    told_only = {
        name: value for name, value in told if getattr(known, name) == getattr(blank, name) and value is not None
    }
    return known.model_copy(update=told_only)


def _workload_facts(result: Result, workload: Workload, context: RepeatContext) -> WorkloadFacts:
    """Return what was asked; the dataset by the client's name, as in files that are imported."""
    dataset = workload.dataset
    asked: tuple[int | None, int | None, int | None]
    match dataset:
        case RandomIds():
            dataset_name = "random-ids"
            asked = (dataset.input_tokens, dataset.output_tokens, None)
        case SharedPrefix():
            dataset_name = "generated-shared-prefix"
            asked = (dataset.prefix_tokens + dataset.question_tokens, dataset.output_tokens, dataset.prefix_tokens)
        case NodeFile():
            dataset_name = str(dataset.layout)
            asked = (None, dataset.output_tokens, None)
        case _:
            assert_never(dataset)
    is_chat = isinstance(dataset, NodeFile) and dataset.layout is FileLayout.OPENAI
    return WorkloadFacts(
        dataset=dataset_name,
        dataset_sha256=context.dataset_sha256,
        input_tokens_asked=asked[0],
        input_tokens_mean=result.workload.input_tokens_mean,
        output_tokens_asked=asked[1],
        output_tokens_mean=result.workload.output_tokens_mean,
        num_prompts=result.totals.requests_sent or context.point.num_prompts,
        seed=workload.seed_for(context.repeat_index, point_index=context.point.index),
        ignore_eos=workload.ignore_eos,
        temperature=None if is_chat else 0.0,
        prefix_tokens=asked[2],
        api="chat" if is_chat else "native",
        is_streamed=True,
        warmup_requests=context.point.warmup_requests,
        is_cache_flushed=workload.flush_cache,
    )


def _load_facts(result: Result, point: LoadPoint) -> LoadFacts:
    totals = result.totals
    return LoadFacts(
        mode=LoadMode.CLOSED if point.rate_rps is None else LoadMode.OPEN_POISSON,
        max_concurrency=point.concurrency,
        request_rate_target_rps=point.rate_rps,
        request_rate_achieved_rps=divided(totals.requests_completed, totals.duration_s),
    )


def _slo(workload: Workload) -> Slo | None:
    limits = workload.goodput
    return None if limits is None else Slo(**limits.model_dump())


def _own_accept_length(result: Result, workload: Workload) -> SpecDecode | None:
    """Return the accept length with its scope: a flush after the warm-up resets the server's counter."""
    if result.spec_decode is None:
        return None
    scope = AcceptScope.RUN if workload.flush_cache else AcceptScope.SERVER_LIFETIME
    return result.spec_decode.model_copy(update={"scope": scope})


def _short_dataset(result: Result, point: LoadPoint) -> str | None:
    sent = result.totals.requests_sent
    if sent is None or sent >= point.num_prompts:
        return None
    return f"the file of prompts gave {sent} of the {point.num_prompts} that were asked for"
