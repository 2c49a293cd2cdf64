"""Engines that are simulated: by a throughput table, by a formula, and event by event.

`fleet` is their common interface; `counters` and `windows` are the tuner's view of them.
"""
