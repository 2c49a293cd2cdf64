"""Which K for each batch bin, and what forbids it.

1. `guardrails`: the checks, in order; those of `SIGHT` come first of all.
2. `choice`: which K should take over, in the bin of now and in the others.
3. `pinning`: the static table stays where tuning does not pay.
4. `changing`: the change of the bin of now, or why there is none.
"""
