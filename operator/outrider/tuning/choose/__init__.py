"""The choice of K for each batch bin, and what forbids it.

1. `guardrails`: the checks, in order; those of `SIGHT` come first.
2. `choice`: the K that should be used in the present bin and in the others.
3. `pinning`: the static fallback if tuning does not pay.
4. `changing`: the change of the present bin, or why there is none.
"""
