"""Vigil: a control plane for SGLang servers on GPU nodes."""
