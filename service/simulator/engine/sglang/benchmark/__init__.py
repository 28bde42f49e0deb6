"""The benchmark client, where it lies since 0.5.16."""
