"""What was measured.

1. `window`: sums of one pod's counters over one span of time, or the gap where there is none.
2. `readings`: the steps of one pod in one batch bin with one K.
"""
