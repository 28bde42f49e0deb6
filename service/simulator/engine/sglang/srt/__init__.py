"""The part of the engine whose Python interface others use: its argument parser."""
