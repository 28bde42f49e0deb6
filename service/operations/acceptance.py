"""Watches the speculation of a launch: what is held against it, and the samples of it that are kept."""

from typing import Any

from service.db import acceptance as acceptance_queries
from service.operations.control import Control
from service.operations.diagnoses import Complaint
from service.sglang.acceptance import AcceptanceLedger, Judgement, Quote, Stretch, Terms
from service.sglang.failures import Code
from service.sglang.failures.codes import remedy_text
from service.sglang.failures.meanings import MEANINGS
from service.sglang.versions import parse_version

_CODES = {
    Judgement.INEFFECTIVE: Code.SPECULATION_INEFFECTIVE,
    Judgement.BELOW_FLOOR: Code.SPECULATION_BELOW_FLOOR,
}


def complaints(ledger: AcceptanceLedger, engine_version: str | None) -> list[Complaint]:
    """Return what is held against a speculation, whether it decodes now or not; at most one thing."""
    stretch = ledger.proven
    code = _CODES.get(stretch.judgement) if stretch else None
    if stretch is None or code is None:
        return []
    facts = MEANINGS[code]
    return [
        Complaint(
            code=code,
            summary=f"{facts.meaning}: {_measured(stretch, ledger.terms)}",
            remedy=remedy_text(facts.remedy, parse_version(engine_version)),
            count=stretch.decoding.reports,
            evidence=[_evidence(quote) for quote in dict.fromkeys((stretch.first, stretch.last))],
            began_at=stretch.began_at,
            ended_at=None,
        )
    ]


def undecided(ledger: AcceptanceLedger) -> frozenset[str]:
    """Return the codes of which nothing is known yet: what was held against it before stands; idle heals nothing."""
    return frozenset(_CODES.values()) if ledger.proven is None else frozenset()


async def keep_samples(control: Control) -> int:
    """Keep the samples that are due, of all launches in one transaction; returns how many."""
    watched = {launch_id: live.verdicts for launch_id, live in control.live.launches.items()}
    now = control.now()
    due = {launch_id: verdicts.acceptance.take_sample(now) for launch_id, verdicts in watched.items() if verdicts}
    samples = {launch_id: sample for launch_id, sample in due.items() if sample is not None}
    if samples:
        async with control.database.write(is_long=True) as session:
            await acceptance_queries.add_samples(session, samples)
    return len(samples)


def _measured(stretch: Stretch, judged_by: Terms) -> str:
    floor = judged_by.floor
    if stretch.judgement is Judgement.BELOW_FLOOR and floor is not None:
        return f"{stretch.measured}, below {floor.accept_length:.2f} ({floor.why})"
    return stretch.measured


def _evidence(quote: Quote) -> dict[str, Any]:
    return {"line": quote.line, "text": quote.text}
