"""Tests of what we know of the engine."""
