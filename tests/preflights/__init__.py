"""Tests of the preflight checks."""
