"""A simulated engine: vLLM on an executor that sleeps step times and accepts drafts by chance."""

__version__ = "0.1.0"
