"""Measurements of other K: which, when and how long.

1. `probing`: whether to probe now, how long, and on which pod; turns of K with equal estimates.
2. `probe_plan`: which K is worth a probe.
"""
