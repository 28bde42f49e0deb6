"""Made-up requests to every operation of the document: no 5xx, and no answer that the document does not have."""

import json
from pathlib import Path

import pytest

from tests.fuzz.running import Outcome, run
from tests.fuzz.world import furnished

SEED = 29
EXAMPLES = 6
DEADLINE_S = 540
STREAM = "GET /api/v1/events"
NEVER_DONE = {
    "POST /api/v1/nodes/{node}/draft-renames": "it takes a checkpoint to be renamed: tests/fleet/test_draft_renames.py",
    "POST /api/v1/servers/adopt": "it takes an engine that somebody else started: tests/fleet/test_adoption.py",
}
"""Operations that no made-up request gets a 2xx from, and where that is tested."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Run once for all questions."""
    root = tmp_path_factory.mktemp("fuzz")
    with furnished(root) as vigil:
        made = run(vigil, root, seed=SEED, examples=EXAMPLES, deadline_s=DEADLINE_S)
        assert vigil.http.get("/readyz").json()["is_ready"]
        assert " ERROR " not in vigil.log.read_text(), vigil.log.read_text()[-5000:]
    print(made.table())  # noqa: T201  with -s, or when a test fails
    return made


def test_nothing_is_answered_that_the_document_does_not_say(outcome: Outcome) -> None:
    assert outcome.is_clean, outcome.report[-20_000:]


def test_every_operation_was_asked(outcome: Outcome) -> None:
    paths = json.loads(Path("openapi.json").read_text())["paths"]
    documented = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(outcome.answers) == documented - {STREAM}


def test_every_operation_was_done_at_least_once(outcome: Outcome) -> None:
    assert {name for name in outcome.answers if not outcome.share_of_success(name)} == set(NEVER_DONE)
