"""The choice of K for each batch bin, and what forbids it.

1. `guardrails`: the checks, in order.
2. `choice`: the K that should be used in the current bin and in the others.
3. `switching`: the change of the current bin, or the fallback to the static schedule.
"""
