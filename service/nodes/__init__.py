"""Nodes and their GPUs: what they are, what an inventory says, and which GPUs a server may have."""
