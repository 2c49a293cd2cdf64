"""Types, releases of vLLM, methods and the fast loop, which the operator and the engine plugin share."""

__version__ = "0.1.0"
