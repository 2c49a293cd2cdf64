"""The tuning law: windows of measurements in, a table out. No I/O, no clock, no globals.

`law.py` is one tick; it walks through the rooms in this order:

- `observe`: windows of counters, and the readings in them;
- `estimate`: what they teach, and what is believed of every K;
- `choose`: which K the table gets, and what forbids it;
- `explore`: which other K is tried, and how long;
- `relaunch`: beside the tick, how the engines should be launched.

What a tick starts from: `policy.py`, `state.py` (`stored.py`, `limits.py`). What it answers:
`decision.py`, written by `report.py` and `words.py`, and by `idle.py` where no engine has a drafter.
`view.py` is what the rooms after `estimate` see of the tick.
"""
