"""Drafts whose files are not what they say: a clear failure for every release, and nothing is judged by a guess."""

from pathlib import Path

import pytest

from service.sglang.checks import CheckCode, Outcome
from tests.remote.test_model_files import LIES
from tests.sglang.speculative.checkpoints import MODELOPT, RELEASES, Workshop, bad, read

FILES, KEYS, SHAPES = CheckCode.DRAFT_WEIGHT_FILES, CheckCode.DRAFT_WEIGHT_KEYS, CheckCode.DRAFT_WEIGHT_SHAPES


@pytest.mark.parametrize("name", LIES)
def test_a_draft_whose_header_lies_fails_by_that_file(workshop: Workshop, name: str) -> None:
    directory = Path(workshop.draft(MODELOPT).path)
    (directory / "model.safetensors").write_bytes(LIES[name][0])
    checks = workshop.judge(read(directory), "0.5.10.post1")
    assert checks[FILES].outcome is Outcome.FAIL
    assert "model.safetensors: " in checks[FILES].found
    assert checks[FILES].remedy
    assert (checks[KEYS].outcome, checks[SHAPES].outcome) == (Outcome.SKIPPED, Outcome.SKIPPED)
    assert "see draft_weight_files" in checks[KEYS].found


@pytest.mark.parametrize("version", RELEASES)
def test_a_sharded_draft_that_lacks_a_shard_fails_with_what_the_release_makes_of_it(
    workshop: Workshop, version: str
) -> None:
    directory = Path(workshop.draft(shards=3).path)
    shards = sorted(directory.glob("*.safetensors"))
    shards[1].unlink()
    check = workshop.judge(read(directory), version)[FILES]
    assert check.outcome is Outcome.FAIL
    assert shards[1].name in check.found
    assert ("RuntimeError" in check.found) is (version == "0.5.23")
    assert ("without a word" in check.found) is (version != "0.5.23")


@pytest.mark.parametrize("version", RELEASES)
def test_a_shard_that_was_cut_off_fails(workshop: Workshop, version: str) -> None:
    directory = Path(workshop.draft(shards=3).path)
    shard = min(directory.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert bad(workshop.judge(read(directory), version)) == {FILES: "fail"}


def test_a_file_that_the_index_does_not_name_is_neither_read_nor_judged(workshop: Workshop) -> None:
    directory = Path(workshop.draft(shards=2).path)
    (directory / "stray.safetensors").write_bytes(LIES["an overlap"][0])
    assert bad(workshop.judge(read(directory))) == {}
