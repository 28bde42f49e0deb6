"""Profiles: named, versioned recipes for a server."""
