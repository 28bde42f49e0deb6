"""Tests of endpoints and inventories."""
