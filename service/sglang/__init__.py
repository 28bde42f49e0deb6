"""Everything Vigil knows of the engine, by version."""
