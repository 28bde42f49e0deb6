"""What a preflight refuses, what may be overridden, and what is kept of it."""

from service.preflights.preflight import Preflight, TimedCheck
from service.sglang.checks import Check, CheckCode, Outcome
from tests.preflights.nodes import NOW


def preflight(**outcomes: Outcome) -> Preflight:
    checks = [TimedCheck(Check(CheckCode(code), outcome, f"found {code}"), 0.5) for code, outcome in outcomes.items()]
    return Preflight(NOW, 1.5, "0.5.23", 30000, ("GPU-0",), tuple(checks))


def test_the_worst_check_that_was_made_is_the_outcome() -> None:
    assert preflight(node_disk=Outcome.PASS, node_driver=Outcome.SKIPPED).outcome is Outcome.PASS
    assert preflight(node_disk=Outcome.WARN, node_driver=Outcome.SKIPPED).outcome is Outcome.WARN
    assert preflight(node_disk=Outcome.WARN, node_port=Outcome.FAIL).outcome is Outcome.FAIL


def test_only_what_failed_refuses_and_only_if_it_is_not_overridden() -> None:
    made = preflight(node_disk=Outcome.WARN, node_port=Outcome.FAIL, node_shm=Outcome.FAIL)
    assert [check.code for check in made.refusing()] == [CheckCode.NODE_PORT, CheckCode.NODE_SHM]
    assert [check.code for check in made.refusing({CheckCode.NODE_PORT})] == [CheckCode.NODE_SHM]
    assert made.refusing({CheckCode.NODE_PORT, CheckCode.NODE_SHM}) == []


def test_what_was_overridden_is_kept_and_nothing_else_that_was_named() -> None:
    made = preflight(node_disk=Outcome.WARN, node_port=Outcome.FAIL)
    document = made.document({CheckCode.NODE_PORT, CheckCode.NODE_DISK, CheckCode.NODE_SHM})
    assert document["overridden"] == ["node_port"]
    assert document["outcome"] == "fail"
    assert document["checks"][1]["found"] == "found node_port"
