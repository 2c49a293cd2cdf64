"""What the operator and the engine plugin share: the cost model and the fast loop."""

__version__ = "0.1.0"
