"""Cron's five fields: what each names, and what is refused because it would be read differently or never come."""

import pytest

from service.benchmarks.cron import Cron, parse_cron


@pytest.mark.parametrize(
    ("text", "cron"),
    [
        ("* * * * *", Cron(None, None, None, None, None)),
        ("30 2 * * *", Cron((30,), (2,), None, None, None)),
        ("*/20 1-3 * * *", Cron((0, 20, 40), (1, 2, 3), None, None, None)),
        ("5/20 0 1,15 * *", Cron((5, 25, 45), (0,), (1, 15), None, None)),
        ("0 0 * jan-mar,12 *", Cron((0,), (0,), None, (1, 2, 3, 12), None)),
        ("0 0 * * 0", Cron((0,), (0,), None, None, (0,))),
        ("0 0 * * 7", Cron((0,), (0,), None, None, (0,))),
        ("0 0 * * 5-7", Cron((0,), (0,), None, None, (0, 5, 6))),
        ("0 0 * * Mon-Fri", Cron((0,), (0,), None, None, (1, 2, 3, 4, 5))),
        ("  0   0 29 2 * ", Cron((0,), (0,), (29,), (2,), None)),
    ],
)
def test_fields_name_times(text: str, cron: Cron) -> None:
    assert parse_cron(text) == cron


def test_sunday_is_sunday_for_a_program_that_counts_from_monday() -> None:
    assert parse_cron("0 0 * * 0,1").weekday_names == ("sun", "mon")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "five fields"),
        ("0 0 * *", "five fields"),
        ("0 0 * * * *", "five fields"),
        ("@daily", "five fields"),
        ("0 " * 60, "five fields"),
        ("60 0 * * *", "minute: 60 does not lie between 0 and 59"),
        ("0 24 * * *", "hour"),
        ("0 0 0 * *", "day of month"),
        ("0 0 * 13 *", "month"),
        ("0 0 * * 8", "day of week"),
        ("0 0 * * funday", "day of week: 'funday' is no number"),
        ("5-1 0 * * *", "no range"),
        ("*/0 0 * * *", "no range"),
        ("0 0 * * fri-mon", "no range"),
        ("1,,2 0 * * *", "no number"),
        ("-1 0 * * *", "no number"),
        ("1-2-3 0 * * *", "no number"),
        ("٣ 0 * * *", "no number"),
        ("0 0 1 * mon", "not both"),
        ("0 0 30 2 *", "no such day"),
        ("0 0 31 2,4,6 *", "no such day"),
    ],
)
def test_what_is_no_cron_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_cron(text)
