"""Money."""

from __future__ import annotations


def dollars_per_million_tokens(price_per_hour: float, tokens_per_second: float) -> float:
    """(price per hour / 3600) / (tokens per second / 1,000,000), of output tokens."""
    return (price_per_hour / 3600.0) / (tokens_per_second / 1e6)
