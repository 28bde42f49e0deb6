"""Tests of the embedded fleet: its SSH servers, its nvidia-smi and its engine stand-in, all with real processes."""
