"""What is believed of an engine.

1. `learning`: what a tick's readings change in the state.
2. `acceptance`: tokens that a request gains in a step, for every K.
3. `features`, `surface`: seconds of a step, for every K at every batch size.
4. `belief`: the goodput that follows from both, and how sure it is.
5. `tail`, `latency`: the slowest tenth of the gaps between two outputs, for a limit on latency.
6. `tax`: what K=0 costs beside a drafter.
"""
