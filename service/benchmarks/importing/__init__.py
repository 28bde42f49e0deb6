"""Import of result files: bounded reading, detection of the tool, mapping by formula."""

from service.benchmarks.importing.documents import DEFAULT_LIMITS, ReadLimits, Upload
from service.benchmarks.importing.mapped import ImportedFile, Mapped, ResultKind
from service.benchmarks.importing.reading import import_file
from service.benchmarks.importing.rejection import RejectionReason, ResultFileRejected

__all__ = [
    "DEFAULT_LIMITS",
    "ImportedFile",
    "Mapped",
    "ReadLimits",
    "RejectionReason",
    "ResultFileRejected",
    "ResultKind",
    "Upload",
    "import_file",
]
