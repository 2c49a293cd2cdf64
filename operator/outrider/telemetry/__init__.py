"""Measurements: from a metrics source to sums over one pod and one span of time."""
