"""The service and the embedded fleet in one process: what the API says while nodes and engines misbehave."""
