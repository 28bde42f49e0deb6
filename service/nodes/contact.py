"""Contact with a node: an axis of its own beside the states of its servers."""

from enum import StrEnum


class Contact(StrEnum):
    """Whether Vigil hears the node. Lost contact is a fact about Vigil, not about the node's servers."""

    UNKNOWN = "unknown"
    """Not tried yet, or waiting for its host key to be confirmed."""
    OK = "ok"
    LOST = "lost"
