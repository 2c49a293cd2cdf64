"""Steps with K=0 that skip the drafter, and how it catches up."""
