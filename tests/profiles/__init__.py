"""Tests of profiles."""
