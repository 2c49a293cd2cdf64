"""What was measured.

1. `window`: sums of one pod's counters over one span of time, or the gap where there is none.
2. `latencies`: the histogram of gaps between two outputs of a request.
3. `readings`: the steps of one pod in one batch bin with one K.
"""
