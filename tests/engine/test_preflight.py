"""A preflight by the real engine, over the API: what it costs, check by check, and what the second one costs."""

from pathlib import Path
from typing import Any

import pytest

from tests.contract.site import Site
from tests.contract.vigil import Vigil

pytestmark = pytest.mark.engine
WARM_S = 20
"""All checks together on a warm node: the promise."""


def shown(title: str, preflight: dict[str, Any]) -> None:
    print(f"\n{title}: {preflight['took_s']:.1f} s, SGLang {preflight['engine_version']}")  # noqa: T201
    for check in preflight["checks"]:
        print(f"  {check['took_s']:6.2f} s  {check['outcome']:8}{check['code']}: {check['found'][:90]}")  # noqa: T201


def test_a_preflight_is_quick_and_the_second_one_uses_what_was_judged(tmp_path: Path, site: Site) -> None:
    with Vigil(tmp_path / "vigil") as vigil:
        vigil.post("/nodes", site.node(), expect=201)
        vigil.until_contact(site.name)
        vigil.post("/profiles", {"name": "p", "recipe": site.recipe()}, expect=201)
        wish = {"profile": "p", "node": site.name}
        first = vigil.post("/preflights", wish, expect=200)
        shown("first", first)
        second = vigil.post("/preflights", wish, expect=200)
        shown("second", second)
    assert first["outcome"] == "pass", first
    judged = {check["code"]: check for check in first["checks"]}["engine_arguments"]
    assert judged["facts"]["judged_by"] == "engine_resolved"
    again = {check["code"]: check for check in second["checks"]}["engine_arguments"]
    assert (again["outcome"], again["found"]) == (judged["outcome"], judged["found"])
    assert second["took_s"] < WARM_S
    assert again["took_s"] < judged["took_s"] / 3
