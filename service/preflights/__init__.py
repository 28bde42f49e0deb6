"""The checks before a launch: what the node, the engine, the model and its draft say of it."""
