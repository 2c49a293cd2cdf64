"""Sums over the steps of the engine core."""
