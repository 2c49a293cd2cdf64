"""Which K is tried in slices of time, and when."""
