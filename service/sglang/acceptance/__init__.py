"""Speculation, watched: what the engine tells of accepted draft tokens, and what that proves (facts: SGLang §7)."""

from service.sglang.acceptance.decode_lines import AcceptanceWatch
from service.sglang.acceptance.definitions import RateDefinition, rate_definition
from service.sglang.acceptance.floors import Floor, FloorSource, Terms, terms_of
from service.sglang.acceptance.judging import Judgement, Standing, Stretch
from service.sglang.acceptance.ledger import AcceptanceLedger
from service.sglang.acceptance.reports import Decoding, Quote, Source
from service.sglang.acceptance.samples import Sample

__all__ = [
    "AcceptanceLedger",
    "AcceptanceWatch",
    "Decoding",
    "Floor",
    "FloorSource",
    "Judgement",
    "Quote",
    "RateDefinition",
    "Sample",
    "Source",
    "Standing",
    "Stretch",
    "Terms",
    "rate_definition",
    "terms_of",
]
