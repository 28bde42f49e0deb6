"""The contract on the real engine behind a real OpenSSH server."""

import pytest

from tests.contract.launching import LaunchContract

pytestmark = pytest.mark.engine


class TestRealEngine(LaunchContract):
    """Launch, watch, restart, stop, and every fault, as a caller of the API sees them."""
