"""Programs of Node, where it is new enough."""

import pytest

from tests.clients.node import NodePrograms, NodeUnfit, install


@pytest.fixture(scope="session")
def node() -> NodePrograms:
    """Give the pinned programs; tests that need them are skipped where npm or a new enough Node is missing."""
    try:
        return install()
    except NodeUnfit as reason:
        pytest.skip(f"{reason}: Node.js 20.19 or newer with npm is needed")
