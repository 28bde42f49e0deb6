"""The operators' guides: requests that exist, links that lead somewhere, every metric explained."""

import json
import re
from pathlib import Path

import pytest

from service.api.metrics.catalog import METRICS
from service.app import create_app
from service.benchmarks.presets import PRESETS
from service.servers.event import EventKind
from service.settings import Settings
from service.sglang.checks import CheckCode

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs" / "operations").glob("*.md"))
_REQUEST = re.compile(r'\bv (?:--no-buffer )?"\$VIGIL(/[^"]*)"(.*)')
_OPTIONS = re.compile(r"-X ([A-Z]+)|-d '")


def requests() -> list[tuple[str, str, list[str]]]:
    """Return method, path and query of every request in the guides."""
    found = []
    for guide in GUIDES:
        for path, options in _REQUEST.findall(guide.read_text()):
            method = next((name or "POST" for name in _OPTIONS.findall(options)), "GET")
            bare, _, query = path.partition("?")
            found.append((method, bare, re.findall(r"([a-z_]+)=", query)))
    return found


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_links_lead_somewhere(guide: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", guide.read_text()):
        if "://" not in target:
            assert (guide.parent / target).exists(), target


def test_the_requests_exist_with_their_parameters() -> None:
    document = create_app(Settings()).openapi()
    assert len(requests()) > 30
    for method, path, query in requests():
        matching = [
            (template, calls[method.lower()])
            for template, calls in document["paths"].items()
            if method.lower() in calls and _fits(f"/api/v1{path}", template)
        ]
        assert matching, f"{method} {path} is no route"
        known = {item["name"] for item in matching[0][1].get("parameters", ()) if item["in"] == "query"}
        assert set(query) <= known, f"{method} {path}: {query}"


def test_bodies_are_json_and_their_fields_exist() -> None:
    document = create_app(Settings()).openapi()
    names = set(re.findall(r'"([a-z_]+)": \{', json.dumps(document["components"]["schemas"])))
    for guide in GUIDES:
        for body in re.findall(r"-d '(\{.*?\})'", guide.read_text(), re.DOTALL):
            assert set(json.loads(body)) <= names, body


def test_words_of_closed_sets_exist() -> None:
    bodies = [
        json.loads(body) for guide in GUIDES for body in re.findall(r"-d '(\{.*?\})'", guide.read_text(), re.DOTALL)
    ]
    told: dict[str, set[str]] = {}
    for body in bodies:
        for name, value in body.items():
            told.setdefault(name, set()).update(value if isinstance(value, list) else [str(value)])
    assert told["override"] <= set(CheckCode)
    assert told["benchmark"] <= set(PRESETS)
    assert told["kinds"] <= set(EventKind)


def test_every_metric_is_explained_with_its_labels() -> None:
    text = (ROOT / "docs" / "operations" / "metrics.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z0-9_]+)` \| ([a-z, ]*) ?\|", text, re.MULTILINE))
    told = {name: tuple(label.strip() for label in labels.split(",") if label.strip()) for name, labels in rows.items()}
    assert told == {metric.name: metric.labels for metric in METRICS}


def _fits(path: str, template: str) -> bool:
    """Tell whether a path is one of a template: fixed words before names, as the router has them."""
    pattern = re.sub(r"\{[a-z_]+\}", "[^/]+", template)
    return re.fullmatch(pattern, path) is not None
