"""Writes docs/diagnoses.md from the rules: every code with its meaning, remedy and the words it is known by.

python tools/diagnoses_doc.py [--check]    --check writes nothing and fails when the file is not what the rules say
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from service.sglang.failures.codes import Code, remedy_text  # noqa: E402 - a script, found from anywhere
from service.sglang.failures.findings import FINDING_RULES  # noqa: E402
from service.sglang.failures.meanings import MEANINGS  # noqa: E402
from service.sglang.failures.rules import RULES  # noqa: E402

TARGET = ROOT / "docs" / "diagnoses.md"
HEAD = """# Diagnoses

<!-- written by tools/diagnoses_doc.py from service/sglang/failures; do not edit -->

A failed start ends with a code, the line of the log that proves it, and a remedy. The code names the root cause: the
first exception of the first rank that failed. What the other ranks, the watchdogs and the parent process say afterwards
is a consequence. Where no rule knows the cause, the code is `unknown` and the root exception is quoted.

Codes marked *while serving* are findings too: they have a beginning and an end, and the server lives on.
`vigil diagnose FILE` reads any log of SGLang with no service at hand.

"""


def as_text() -> str:
    """Return the page."""
    told_by_numbers = {Code.SPECULATION_INEFFECTIVE, Code.SPECULATION_BELOW_FLOOR, Code.SPECULATIVE_SLOW}
    serving = {rule.code for rule in FINDING_RULES} | told_by_numbers
    return HEAD + "\n".join(_section(code, is_finding=code in serving) for code in sorted(Code))


def _section(code: Code, *, is_finding: bool) -> str:
    facts = MEANINGS[code]
    known_by = [(rule.code, rule.example) for rule in RULES] + [(rule.code, rule.example) for rule in FINDING_RULES]
    examples = [example for known, example in known_by if known is code and example]
    lines = [f"## `{code}`{' (while serving)' if is_finding else ''}", "", f"{facts.meaning}.", ""]
    lines += [f"**Remedy.** {remedy_text(facts.remedy, None)}", ""]
    if examples:
        lines += ["Known by lines such as", "", "```text", *dict.fromkeys(examples), "```", ""]
    return "\n".join(lines)


def main() -> int:
    """Write the page, or compare."""
    text = as_text()
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}: {len(Code)} codes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
