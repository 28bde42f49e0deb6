"""Tests of the way to a node and of what runs there, against a real sshd and real processes."""
