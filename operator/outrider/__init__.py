"""Outrider: a Kubernetes operator that keeps speculative decoding profitable."""

__version__ = "0.1.0"
