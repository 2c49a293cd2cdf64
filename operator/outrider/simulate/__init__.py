"""Engines and traffic that replay against the tuning law, without a cluster.

`traffic` goes to `engines`, and `rivals` choose their tables. `replay` is one run of them; `table_runs`
and `scenario_runs` (of `scenarios`) bring a run together, and `figures` says what came of it.

Pure: seeds are injected, no clock is read.
"""
