"""The tuner: from windows of measurements to a schedule. No I/O, no clock, no globals.

`tuner.py` lists the stages of one tick; they use the packages in this order:

- `observe`: windows of counters, and the readings in them;
- `estimate`: updates from readings, and the estimates of every K;
- `choose`: K of each batch bin, and the guardrails;
- `explore`: probes of another K, and their length;
- `relaunch`: apart from the tick, the launch configuration of the engines.

`tick_context.py` has the inputs of a tick and what its stages find, and `policy.py` the parameters.
`state.py` and `stored.py` have the memory. The result is in `decision.py`; `report.py` and `messages.py`
explain it.
"""
