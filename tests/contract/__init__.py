"""What Vigil promises, through its public HTTP API alone: the same tests on the embedded fleet and on a real engine."""
