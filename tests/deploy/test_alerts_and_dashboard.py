"""Alerts and dashboard refer only to metrics, labels and words that the service has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.api.metrics.catalog import METRICS, Kind, Metric
from service.nodes.contact import Contact
from service.servers.operation import OperationKind, OperationState
from service.servers.progress import Verdict
from service.servers.serving import ServingVerdict
from service.servers.states import Reason, State
from service.sglang.failures import Code
from tests.deploy import promql

DEPLOY = Path(__file__).parents[2] / "deploy"
KNOWN = {metric.name: metric for metric in METRICS}
OWN_LABELS = frozenset({"job", "instance"})
"""What Prometheus itself puts to every series."""
WORDS: dict[str, frozenset[str]] = {
    "contact": frozenset(Contact),
    "verdict": frozenset(Verdict) | frozenset(ServingVerdict),
    "reason": frozenset(Reason),
    "code": frozenset(Code),
    "subject": frozenset({"server", "node", "policy", "verdict"}),
    "kind": frozenset(OperationKind),
}
STATES = {"vigil_server_state": frozenset(State), "vigil_ssh_connections": frozenset({"open", "opening"})}


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana" / "vigil.json").read_text())
    return found


def expressions() -> Iterator[str]:
    for rule in alerts():
        yield rule["expr"]
    shown = dashboard()
    for panel in shown["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$__rate_interval", "5m").replace("$__range", "6h")
    for variable in shown["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def metric_of(name: str) -> Metric:
    """Return the metric that a series of this name belongs to; KeyError when there is none."""
    ends = [end for end in ("_bucket", "_sum", "_count") if name.endswith(end)]
    base = KNOWN.get(name.removesuffix(ends[0])) if ends else None
    if base is not None and base.kind is Kind.HISTOGRAM:
        return base
    if KNOWN[name].kind is Kind.HISTOGRAM:
        raise KeyError(name)
    return KNOWN[name]


def labels_of(used: promql.Used) -> frozenset[str]:
    if used.name == "up":
        return OWN_LABELS
    found = metric_of(used.name)
    return frozenset(found.labels) | OWN_LABELS | ({"le"} if used.name.endswith("_bucket") else frozenset())


@pytest.mark.parametrize("text", list(expressions()))
def test_an_expression_refers_to_what_there_is(text: str) -> None:
    read = promql.read(text)
    assert read.used, "an expression reads some metric"
    for used in read.used:
        for label, value in used.matchers:
            assert label in labels_of(used), f"{used.name} has no label {label}"
            _require_words(used.name, label, value)
    assert read.grouping <= frozenset().union(*(labels_of(used) for used in read.used))


def _require_words(name: str, label: str, value: str) -> None:
    """Fail when a label is compared with a word that it never holds."""
    known = WORDS.get(label)
    if label == "state":
        known = STATES.get(name, frozenset(OperationState))
    if known is not None:
        assert frozenset(value.split("|")) <= known, f"{name} never has {label}={value}"


@pytest.mark.parametrize(
    "text",
    [
        "vigil_server_stat == 1",
        'vigil_server_state{stat="failed"} == 1',
        'vigil_server_state{state="broken"} == 1',
        "sum by (profile) (vigil_node_contact)",
        "rate(vigil_start_seconds[5m])",
        "vigil_watchers_late_total > 0",
        'up{server="one"} == 0',
        "label_values(vigil_node_contact, server)",
    ],
)
def test_the_check_finds_what_is_wrong(text: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        test_an_expression_refers_to_what_there_is(text)


def test_the_reader_sees_every_name() -> None:
    text = 'sum by (le) (rate(a_total{x="1", y=~"b|c"}[5m])) / on (node) d_bytes and time() - e > 2e9'
    read = promql.read(text)
    assert read.used == (
        promql.Used("a_total", (("x", "1"), ("y", "b|c"))),
        promql.Used("d_bytes"),
        promql.Used("e"),
    )
    assert read.grouping == {"le", "node"}
    with pytest.raises(ValueError, match="without a metric"):
        promql.read('{x="1"}')


def test_every_alert_says_what_it_means_by_labels_that_are_there() -> None:
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names))
    for rule in alerts():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        told = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        read = promql.read(rule["expr"])
        assert told <= frozenset().union(*(labels_of(used) for used in read.used)), rule["alert"]


def test_panels_stand_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])
