"""What runs on the simulated nodes: standard library, Python 3.8, started by the nodes and never imported here."""
