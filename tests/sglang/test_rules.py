"""The rules as a whole: every code is explained and known by something, and the page is what the rules say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.sglang.failures.codes import FLAGS, Code, remedy_text
from service.sglang.failures.findings import FINDING_RULES
from service.sglang.failures.meanings import MEANINGS
from service.sglang.failures.rules import RULES
from service.sglang.versions import Version, parse_version

ROOT = Path(__file__).parents[2]
BY_OTHER_MEANS = {
    Code.UNKNOWN,
    Code.CLIENT_SIDE_BUG,
    Code.NCCL_INIT_HANG,
    Code.JIT_COMPILE_SLOW_OR_STUCK,
    Code.SPECULATION_INEFFECTIVE,
    Code.SPECULATION_BELOW_FLOOR,
    Code.SPECULATIVE_SLOW,
}
"""Known by what is missing, by a clock, or by numbers, not by a line."""


def test_every_code_is_explained() -> None:
    assert set(MEANINGS) == set(Code)


def test_every_code_is_known_by_a_rule() -> None:
    known = {rule.code for rule in RULES} | {rule.code for rule in FINDING_RULES}
    assert set(Code) - known == BY_OTHER_MEANS


@pytest.mark.parametrize("code", Code)
def test_a_remedy_can_be_spelt_for_any_version(code: Code) -> None:
    for version in (None, Version(0, 4, 0), Version(0, 5, 12), Version(0, 5, 23)):
        assert "{" not in remedy_text(MEANINGS[code].remedy, version)


def test_flags_are_spelt_from_their_first_version_on() -> None:
    for spellings in FLAGS.values():
        assert spellings[0].since == Version(0, 0, 0)
        assert [one.since for one in spellings] == sorted(one.since for one in spellings)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.example], ids=lambda rule: f"{rule.code}-{rule.example[:20]}"
)
def test_a_rules_example_fits_the_rule(rule: object) -> None:
    says: re.Pattern[str] = rule.says  # type: ignore[attr-defined]
    assert says.search(rule.example)  # type: ignore[attr-defined]


@pytest.mark.parametrize("rule", FINDING_RULES, ids=lambda rule: rule.code)
def test_a_finding_rules_example_fits_the_rule(rule: object) -> None:
    says: re.Pattern[str] = rule.says  # type: ignore[attr-defined]
    assert says.search(rule.example)  # type: ignore[attr-defined]


def test_the_page_of_diagnoses_is_what_the_rules_say() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "diagnoses_doc.py"), "--check"], check=False)
    assert done.returncode == 0, "run `python tools/diagnoses_doc.py`"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.5.10.post1", Version(0, 5, 10)),
        ("0.5.23", Version(0, 5, 23)),
        ("0.5.0rc2", Version(0, 5, 0)),
        ("dev", None),
        (None, None),
    ],
)
def test_versions_of_the_engine(text: str | None, version: Version | None) -> None:
    assert parse_version(text) == version
