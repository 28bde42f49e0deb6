"""The watch over nodes and launches, with a clock that stands still until it is set."""
