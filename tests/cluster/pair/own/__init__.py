"""A pair whose operator and Prometheus are its own, for what restarts the one or takes the other away."""
