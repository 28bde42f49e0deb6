"""Whose number an acceptance is measured by: the profile's, else a hint, which says that it is one."""

import pytest

from service.sglang.acceptance import FloorSource, Terms, terms_of


def terms(algorithm: str | None, steps: object = None, *, own: float | None = None, draft: str | None = None) -> Terms:
    named = {
        "speculative-algorithm": algorithm,
        "speculative-num-steps": steps,
        "speculative-draft-model-path": draft,
    }
    args = {name: value for name, value in named.items() if value is not None}
    return terms_of(args, {}, model_path="/models/target", own_floor=own)


@pytest.mark.parametrize(
    ("algorithm", "steps", "floor"),
    [
        ("EAGLE3", 3, 1.7),
        ("EAGLE3", 4, 1.7),
        ("EAGLE3", 5, 1.8),
        ("EAGLE3", 7, 1.8),
        ("eagle3", "5", 1.8),
        ("NEXTN", 1, 1.5),
        ("NEXTN", 2, 1.5),
        ("NEXTN", 3, 1.8),
        ("STANDALONE", 4, 1.1),
        ("EAGLE3", None, 1.7),
        ("NEXTN", None, 1.5),
        ("EAGLE3", "many", 1.7),
    ],
)
def test_a_hint_is_that_of_the_most_steps_that_are_not_more(algorithm: str, steps: object, floor: float) -> None:
    found = terms(algorithm, steps).floor
    assert found is not None
    assert (found.accept_length, found.source) == (floor, FloorSource.HINT)
    assert "a hint, not a measurement" in found.why
    assert "limits.min_accept_length" in found.why


def test_no_number_is_known_for_fewer_steps_or_other_algorithms() -> None:
    assert terms("EAGLE3", 2).floor is None
    assert terms("NGRAM", 5).floor is None
    assert terms(None, 5).floor is None


def test_the_profile_has_the_last_word() -> None:
    found = terms("EAGLE3", 3, own=2.5).floor
    assert found is not None
    assert (found.accept_length, found.source) == (2.5, FloorSource.PROFILE)
    assert "hint" not in found.why


def test_eagle_without_a_draft_of_its_own_is_the_models_own_head() -> None:
    of_head, of_target = terms("EAGLE", 3).floor, terms("EAGLE", 3, draft="/models/target").floor
    of_draft = terms("EAGLE", 3, draft="/models/draft").floor
    assert [floor and floor.accept_length for floor in (of_head, of_target, of_draft)] == [1.8, 1.8, 1.5]


@pytest.mark.parametrize(("value", "is_simulated"), [("2.5", True), ("0", False), ("-1", False), ("yes", False)])
def test_an_acceptance_that_is_made_up_is_known(value: str, is_simulated: bool) -> None:  # noqa: FBT001
    found = terms_of({}, {"SGLANG_SIMULATE_ACC_LEN": value}, model_path="/m", own_floor=None)
    assert found.is_simulated is is_simulated
