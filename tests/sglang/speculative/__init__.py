"""Tests of what can be known of a model and its draft before a start, on checkpoints that the tests write."""
