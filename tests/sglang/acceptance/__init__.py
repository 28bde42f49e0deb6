"""Tests of what an engine tells of its speculation, and of what that proves."""
