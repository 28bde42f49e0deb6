"""Tests against the real SGLang, and how it is installed."""
