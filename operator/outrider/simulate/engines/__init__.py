"""Engines that are simulated: by a throughput table, by a formula, and event by event.

`fleet` is what each of them offers to a run, `counters` and `windows` what the law sees of it.
"""
