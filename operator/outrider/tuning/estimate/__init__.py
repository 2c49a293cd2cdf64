"""Estimates of an engine's performance.

1. `learning`: the update of the state by a tick's readings.
2. `acceptance`: tokens that a request gains in a step, for every K.
3. `features`, `surface`, `model_averaging`: seconds of a step, for every K at every batch size.
4. `goodput`, `posterior`: the goodput that follows from both, with its error.
5. `latency`, `latency_percentile`: the slowest tenth of the gaps between two outputs.
6. `idle_drafter_overhead`: the overhead of the idle drafter at K=0.
"""
