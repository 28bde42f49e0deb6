"""The options of three releases, as the stand-in of the engine has them: names, and what is said of their end."""

import json
from functools import cache
from importlib.resources import files

from service.sglang.judgement import EngineOption, JudgedBy, Judgement, JudgementTimes

VERSIONS = ("0.5.10.post1", "0.5.16", "0.5.23")


@cache
def options(version: str) -> tuple[EngineOption, ...]:
    """Return every option of a release."""
    text = (files("service.simulator.engine.sglang") / "flags" / f"{version}.json").read_text("utf-8")
    return tuple(
        EngineOption(
            names=tuple(row["names"].split()),
            deprecated=row.get("help") or ("deprecated" if str(row.get("kind")).startswith("old") else None),
            successor=row.get("new"),
        )
        for row in json.loads(text)
    )


def resolved(version: str = "0.5.23", **changes: object) -> Judgement:
    """Return the judgement of an engine that has nothing to complain of."""
    fields: dict[str, object] = {
        "how": JudgedBy.ENGINE_RESOLVED,
        "engine_version": version,
        "times": JudgementTimes(8.0, 5.0, 0.001, 2.0),
        "options": options(version),
        **changes,
    }
    return Judgement(**fields)  # type: ignore[arg-type]  # the caller names fields
