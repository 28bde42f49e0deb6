"""Tests: the pure core by tables and properties, the shells against real processes."""
