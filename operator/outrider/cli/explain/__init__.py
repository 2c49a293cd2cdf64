"""``outrider explain``: why a model has its schedule, or which one it had at a past time."""
