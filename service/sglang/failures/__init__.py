"""Why a start failed or a server serves badly: rules as data, and the logic that finds the root among echoes."""

from service.sglang.failures.codes import Code
from service.sglang.failures.diagnosing import Circumstances, GpuFact, diagnose
from service.sglang.failures.findings import Finding, findings
from service.sglang.failures.rule import Confidence, Diagnosis, Evidence

__all__ = [
    "Circumstances",
    "Code",
    "Confidence",
    "Diagnosis",
    "Evidence",
    "Finding",
    "GpuFact",
    "diagnose",
    "findings",
]
