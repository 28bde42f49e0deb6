"""What a look at a node says of a launch: all of it on a good node, its port and clock, and what was not seen."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from service.preflights.conditions import (
    BindTrial,
    Listener,
    Part,
    PortLook,
)
from service.preflights.node_checks import check_node
from service.sglang.checks import CheckCode, Outcome
from tests.preflights.nodes import CONDITIONS, FAIL, INVENTORY, NOW, OK, SKIPPED, WARN, WISH, judged


def test_a_good_node_passes_everything_and_shows_the_numbers() -> None:
    checks = check_node(INVENTORY, CONDITIONS, WISH, now=NOW)
    assert {check.code: check.outcome for check in checks} == {
        CheckCode.NODE_GPUS: OK,
        CheckCode.NODE_PORT: OK,
        CheckCode.NODE_DISK: OK,
        CheckCode.NODE_SHM: OK,
        CheckCode.NODE_LIMITS: OK,
        CheckCode.NODE_DRIVER: OK,
        CheckCode.NODE_CLOCK: OK,
    }
    told = {check.code: check.found for check in checks}
    assert told == {
        CheckCode.NODE_GPUS: "GPU 0, 1 (NVIDIA H200): free; memory in use: 0 of 143771 MiB, 4 of 143771 MiB",
        CheckCode.NODE_PORT: "port 30000 is free on 127.0.0.1",
        CheckCode.NODE_DISK: "500000 of 900000 MiB are free for launches and their logs, the hub's cache (/home/u)",
        CheckCode.NODE_SHM: "999000 of 1000000 MiB of /dev/shm are free, in 3 files",
        CheckCode.NODE_LIMITS: "started by setsid: open files 1048576 (hard 1048576), locked memory unlimited, "
        "threads 4096 (hard 4096), core files 0 KiB, stack 8192 KiB",
        CheckCode.NODE_DRIVER: "driver 590.48.01 serves torch 2.14.1+cu130, built for CUDA 13.0",
        CheckCode.NODE_CLOCK: "the node's clock differs by between -0.05 s and +0.05 s; the way there and back took "
        "0.10 s",
    }


@pytest.mark.parametrize("part", list(Part))
def test_a_part_that_could_not_be_looked_at_is_skipped_with_its_reason(part: Part) -> None:
    broken = replace(CONDITIONS, **{part.value: None}, problems={part: "Permission denied"})  # type: ignore[arg-type]
    checks = check_node(INVENTORY, broken, WISH, now=NOW)
    told = [check for check in checks if "Permission denied" in check.found]
    expected = {
        Part.PORT: CheckCode.NODE_PORT,
        Part.LIMITS: CheckCode.NODE_LIMITS,
        Part.SHARED_MEMORY: CheckCode.NODE_SHM,
        Part.PLACES: CheckCode.NODE_DISK,
        Part.PACKAGES: CheckCode.NODE_DRIVER,
        Part.PROCESSES: CheckCode.NODE_GPUS,
    }
    assert [check.code for check in told] == [expected[part]]
    assert told[0].outcome is (OK if part is Part.PROCESSES else SKIPPED)


def test_who_listens_is_told() -> None:
    look = PortLook((Listener("0.0.0.0", 99, "bob", "nginx", None),), (BindTrial("127.0.0.1", "EADDRINUSE"),))
    check = judged(CheckCode.NODE_PORT, conditions={"port": look})
    assert (check.outcome, check.found, check.remedy) == (
        FAIL,
        "pid 99 of user bob (`nginx`) listens on 0.0.0.0 port 30000",
        "end pid 99 if nobody needs it, or give the server another port",
    )


def test_the_launch_that_goes_first_may_listen() -> None:
    own = Listener("127.0.0.1", 99, "u", "python", "ln_1")
    look = PortLook((own,), (BindTrial("127.0.0.1", "EADDRINUSE"),))
    check = judged(CheckCode.NODE_PORT, conditions={"port": look}, own_launch_id="ln_1")
    assert check.outcome is OK
    assert "launch ln_1 listens there and is stopped first" in check.found
    check = judged(CheckCode.NODE_PORT, conditions={"port": look})
    assert check.outcome is FAIL
    assert check.remedy == "stop the server of launch ln_1, or give the server another port"


def test_a_listener_on_another_address_is_no_conflict() -> None:
    look = PortLook((Listener("10.0.0.7", 99, "bob", "nginx", None),), (BindTrial("127.0.0.1", None),))
    check = judged(CheckCode.NODE_PORT, conditions={"port": look})
    assert check.outcome is OK
    assert "listens on 10.0.0.7, which is no conflict" in check.found


def test_of_a_name_only_the_listeners_are_judged() -> None:
    check = judged(CheckCode.NODE_PORT, host="gpu-7", conditions={"port": PortLook((), ())})
    assert check.outcome is OK
    assert "gpu-7 is a name: it was not tried" in check.found
    look = PortLook((Listener("10.0.0.7", None, "bob", None, None),), ())
    assert judged(CheckCode.NODE_PORT, host="gpu-7", conditions={"port": look}).outcome is FAIL


def test_a_port_of_the_kernels_own_range_is_a_warning() -> None:
    look = PortLook((), (BindTrial("127.0.0.1", None),), (32768, 60999))
    check = judged(CheckCode.NODE_PORT, port=40000, conditions={"port": look})
    assert check.outcome is WARN
    assert "32768 to 60999" in check.found


@pytest.mark.parametrize("error", ["EADDRNOTAVAIL", "EACCES", "EAFNOSUPPORT", "EADDRINUSE"])
def test_whatever_keeps_it_from_being_bound_is_a_failure(error: str) -> None:
    look = PortLook((), (BindTrial("127.0.0.1", error),))
    assert judged(CheckCode.NODE_PORT, conditions={"port": look}).outcome is FAIL


@pytest.mark.parametrize(
    ("asked_s", "began_s", "ended_s", "answered_s", "outcome", "told"),
    [
        (0.0, 0.1, 0.3, 0.4, OK, "between -0.10 s and +0.10 s; the way there and back took 0.20 s"),
        (0.0, 12.1, 12.3, 0.4, WARN, "ahead: it differs by between +11.90 s and +12.10 s"),
        (0.0, -11.9, -11.7, 0.4, WARN, "behind: it differs by between -12.10 s and -11.90 s"),
        (0.0, 2.0, 2.3, 0.4, OK, "between +1.90 s and +2.00 s"),
        (0.0, 2.2, 2.3, 0.4, SKIPPED, "too slow to tell"),
        (0.0, 0.1, 0.3, 9.0, SKIPPED, "between -8.70 s and +0.10 s"),
        (0.0, 5.0, 8.0, 9.0, SKIPPED, "between -1.00 s and +5.00 s"),
        (0.0, 60.0, 60.1, 9.0, WARN, "between +51.10 s and +60.00 s"),
    ],
)
def test_the_skew_is_bounded_by_the_way_there_and_back(
    asked_s: float, began_s: float, ended_s: float, answered_s: float, outcome: Outcome, told: str
) -> None:
    def at(seconds: float) -> datetime:
        return NOW + timedelta(seconds=seconds)

    check = judged(
        CheckCode.NODE_CLOCK,
        asked_at=at(asked_s),
        answered_at=at(answered_s),
        conditions={"began_at": at(began_s), "ended_at": at(ended_s)},
    )
    assert check.outcome is outcome, check
    assert told in check.found
