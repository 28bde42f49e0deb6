"""Why a file is not taken for a benchmark result: one error, with a closed list of reasons."""

from enum import StrEnum


class RejectionReason(StrEnum):
    """What is wrong with the file."""

    EMPTY = "empty"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    TOO_MANY_VALUES = "too_many_values"
    NOT_TEXT = "not_text"
    COMPRESSED = "compressed"
    DATABASE = "database"
    HTML = "html"
    NOT_JSON = "not_json"
    TRUNCATED = "truncated"
    UNKNOWN_TOOL = "unknown_tool"
    UNSUPPORTED_VERSION = "unsupported_version"
    NO_RESULT = "no_result"
    SEVERAL_RESULTS = "several_results"


_REMEDIES = {
    RejectionReason.TOO_LARGE: "Write the result without per-request details, or import the summary file of the tool.",
    RejectionReason.TOO_MANY_VALUES: "Write the result without per-request details, or import the tool's summary file.",
    RejectionReason.COMPRESSED: "Unpack the file and import what is in it.",
    RejectionReason.DATABASE: "Import benchmark_summary.json and benchmark_percentile.json, which lie beside it.",
    RejectionReason.HTML: "Import the JSON file that the tool wrote, not a page that shows it.",
    RejectionReason.TRUNCATED: "Copy the file again, or run the benchmark again: the end is missing.",
    RejectionReason.UNSUPPORTED_VERSION: "Write the result with a version of the tool that docs/benchmarks.md names.",
}


_REMEDY = "Import a result file of a tool that docs/benchmarks.md names."


class ResultFileRejected(Exception):
    """The file is not a benchmark result that can be read: `reason`, `detail` and `remedy` are for the caller.

    It is no leaf of the tree in `service.errors`: whoever takes files from a request makes it one.
    """

    def __init__(self, reason: RejectionReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.remedy = _REMEDIES.get(reason, _REMEDY)
