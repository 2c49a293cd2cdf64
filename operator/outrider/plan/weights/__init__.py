"""Weights that one Job downloads before engines start: what is wanted, by which Job, and what fits."""
