"""The tuner: from windows of measurements to a schedule. No I/O, no clock, no globals.

`law.py` is one tick; it uses the packages in this order:

- `observe`: windows of counters, and the readings in them;
- `estimate`: updates from readings, and the estimates of every K;
- `choose`: K of each batch bin, and the guardrails;
- `explore`: probes of another K, and their length;
- `relaunch`: apart from the tick, the launch configuration of the engines.

The inputs of a tick are in `policy.py` and `state.py` (`stored.py`, `limits.py`). Its result is in
`decision.py`. `report.py` and `words.py` write it, or `idle.py` if no engine has a drafter. `view.py` is the
tick's view for the packages after `estimate`.
"""
