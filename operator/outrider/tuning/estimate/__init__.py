"""Estimates of an engine's performance.

1. `learning`: the update of the state by a tick's readings.
2. `acceptance`: tokens that a request gains in a step, for every K.
3. `features`, `surface`: seconds of a step, for every K at every batch size.
4. `belief`: the goodput that follows from both, with its error.
5. `tail`, `latency`: the slowest tenth of the gaps between two outputs, for a limit on latency.
6. `tax`: the overhead of the idle drafter at K=0.
"""
