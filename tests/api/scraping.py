"""Reads the page for Prometheus as Prometheus does."""

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from service.api.metrics.catalog import METRICS
from tests.api.conftest import Api

SUFFIXES = ("_bucket", "_sum", "_count")


class Page:
    """The samples of a scrape, by name and labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """Return the value of the one series with exactly these labels."""
        (found,) = [sample.value for sample in self.samples if (sample.name, sample.labels) == (name, labels)]
        return found

    def labels_of(self, name: str) -> list[Mapping[str, str]]:
        """Return the labels of every series of a name that is not 0."""
        return [sample.labels for sample in self.samples if sample.name == name and sample.value]


async def scrape(api: Api) -> Page:
    answer = await api.http.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Page(answer.text)


def require_catalog(page: Page) -> None:
    """Fail when a series has a name or labels that the catalog does not."""
    known = {metric.name: metric for metric in METRICS}
    for sample in page.samples:
        name = next(
            (sample.name.removesuffix(end) for end in SUFFIXES if sample.name.removesuffix(end) in known), sample.name
        )
        wanted = set(known[name].labels) | ({"le"} if sample.name.endswith("_bucket") else set())
        assert set(sample.labels) == wanted, sample
