"""Measurements: from a metrics source to sums per pod and time span."""
