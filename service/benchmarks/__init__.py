"""Workloads, the canonical metrics of their runs, comparison and history."""
