"""The way to the nodes: SSH, what runs on a node, and HTTP through the SSH connection."""
