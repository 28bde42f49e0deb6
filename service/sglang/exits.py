"""What the exit codes of the engine's parent process mean."""

_FIRST_SIGNAL_CODE = 129
_MEANINGS = {
    0: "it ended by itself without an error",
    1: "it ended with a Python error",
    2: "its arguments were refused",
    3: "its HTTP port could not be bound",
    134: "it aborted (SIGABRT)",
    135: "it died of a bus error (SIGBUS)",
    137: "it was killed (SIGKILL): by itself after a child failed, by somebody, or for want of memory",
    139: "it crashed (SIGSEGV)",
    143: "it was terminated (SIGTERM)",
}
"""Facts: SGLang §6. A child's failure, an out-of-memory kill and somebody's kill -9 are all 137; the log tells."""


def exit_meaning(code: int | None) -> str:
    """Return a clause that says what an exit code means."""
    if code is None:
        return "its exit code is not known"
    if code in _MEANINGS:
        return _MEANINGS[code]
    return f"it was ended by signal {code - 128}" if code >= _FIRST_SIGNAL_CODE else "it ended with an error"
