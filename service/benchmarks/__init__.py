"""Benchmarks: workloads, results in one schema, comparison with noise, history."""
