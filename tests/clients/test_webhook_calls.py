"""What the document says of webhooks is what a receiver gets."""

import json
import re
from typing import Any

import pytest

from service.api.schemas.events import DeliveredEvent
from tests.api.test_events import tell
from tests.api.test_webhooks import call, create, receiver, service
from tests.clients.node import ROOT
from tests.event_streams import Served
from tests.receivers import Receiver

__all__ = ["receiver", "service"]


@pytest.fixture
def told() -> Any:
    return json.loads((ROOT / "openapi.json").read_text())["webhooks"]["event"]["post"]


async def test_events_and_tests_come_as_the_document_says(told: Any, service: Served, receiver: Receiver) -> None:
    webhook, _ = await create(service, receiver.url)
    await tell(service.parts.control, 1)
    await receiver.until(1)
    await call(service, "POST", f"/{webhook}/test", expect=202)
    got = await receiver.until(2)
    assert [DeliveredEvent.model_validate(item.document).root.kind for item in got] == ["verdict_changed", "test"]
    patterns = {header["name"]: header["schema"]["pattern"] for header in told["parameters"] if header["required"]}
    assert set(patterns) == {name for name in got[0].headers if name.startswith("webhook-")}
    assert [name for name, pattern in patterns.items() if not re.search(pattern, got[0].headers[name])] == []


def test_the_example_is_an_event(told: Any) -> None:
    assert told["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/DeliveredEvent")
    for example in DeliveredEvent.model_json_schema()["examples"]:
        DeliveredEvent.model_validate(example)
