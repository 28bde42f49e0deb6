"""Each kind of failure gets its code, its phase and the line that proves it."""

import pytest

from service.sglang.failures import Code, diagnose
from service.sglang.phases import Phase
from service.sglang.startup_log import StartupLog
from tests.sglang.kinds import RESOURCE_KINDS, Kind
from tests.sglang.lines import STARTS, as_log
from tests.sglang.setup_kinds import SETUP_KINDS

KINDS = (*RESOURCE_KINDS, *SETUP_KINDS)
TOLD_BY_PHASE = (
    {Code.CUDA_OOM_WEIGHTS, Code.CUDA_OOM_GRAPH_CAPTURE, Code.CUDA_OOM_RUNTIME},
    {Code.CHECKPOINT_MISMATCH, Code.DRAFT_MODEL_MISMATCH},
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.code}-{kind.proof[:24]}")
def test_every_kind_gets_its_code_phase_and_proof(kind: Kind) -> None:
    start = STARTS[kind.phase] if kind.phase in STARTS else STARTS[Phase.SPAWNING][:1]
    log = StartupLog().feed(as_log(start, kind.lines))
    diagnosis = diagnose(log)
    assert diagnosis is not None
    assert (diagnosis.code, log.reading.phase, log.reading.has_failed) == (kind.code, kind.phase, True)
    assert any(kind.proof in evidence.text for evidence in diagnosis.evidence)
    assert diagnosis.summary
    assert diagnosis.remedy


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.code}-{kind.proof[:24]}")
def test_a_log_that_begins_with_the_failure_is_read_too(kind: Kind) -> None:
    """Issue reports often quote nothing else; only what depends on the phase may be named otherwise."""
    diagnosis = diagnose(StartupLog().feed(as_log(kind.lines)))
    assert diagnosis is not None
    told = {diagnosis.code, kind.code}
    assert len(told) == 1 or any(told <= codes for codes in TOLD_BY_PHASE)
