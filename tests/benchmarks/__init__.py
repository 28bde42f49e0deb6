"""Tests of the benchmark core."""
