"""Simulated engines and traffic for the tuner and other policies, without a cluster.

`engines` serve `traffic`, and policies in `rivals` choose their schedules. `replay` is one run; `table_runs`
and `scenario_runs` (of `scenarios`) set up a run, and `figures` evaluates it.

Pure: seeds are injected, no clock is read.
"""
