"""The contract on the embedded fleet."""

from tests.contract.launching import LaunchContract


class TestEmbeddedFleet(LaunchContract):
    """Launch, watch, restart, stop, and every fault, in compressed time."""
