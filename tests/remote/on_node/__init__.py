"""Tests of the modules that run on a node, each by itself."""
