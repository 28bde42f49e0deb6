"""Logs of real engines, one folder a version, and the programs that recorded them."""
