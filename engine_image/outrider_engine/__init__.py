"""vLLM plugin: fenced live control of ``num_speculative_tokens``."""

__version__ = "0.1.0"
