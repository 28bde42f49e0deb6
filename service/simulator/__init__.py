"""The embedded fleet: nodes with a real SSH server on loopback and an engine stand-in."""
