"""Whether engines should be launched otherwise: with a drafter, without one, with another table.

1. `state`: what is remembered of the launches before, and how an order changes it.
2. `rules`: seven rules, in order; the first that has something to say wins.
3. `words`: how they say it.
"""
