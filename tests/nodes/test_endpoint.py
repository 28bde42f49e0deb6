"""How an endpoint is named in messages."""

import pytest

from service.nodes.endpoint import Agent, Endpoint


@pytest.mark.parametrize(
    ("address", "label"),
    [("10.1.2.3", "ann@10.1.2.3:22"), ("gpu-7.example", "ann@gpu-7.example:22"), ("fe80::1", "ann@[fe80::1]:22")],
)
def test_the_label_names_user_address_and_port(address: str, label: str) -> None:
    assert Endpoint(address, 22, "ann", Agent()).label == label
