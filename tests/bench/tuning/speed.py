"""How many times faster than real time the engines are, in CPU time of one core."""

from __future__ import annotations

import time
from collections.abc import Callable

from outrider_lab.scenario_runs import run_scenario, static_runs
from outrider_lab.table_runs import Setting, run_table
from tests.bench.tuning.families import tables
from tests.bench.tuning.moving import scenario

WANTED = {"table": 3600.0, "events": 600.0}
REPEATS = 3


def measure() -> list[dict[str, object]]:
    """Simulated seconds per CPU second, with a static table and with the law; the best of some runs."""
    setting = Setting()
    simulated = setting.dwell * len(setting.loads)
    moving = scenario("task_shift", "small", 0)
    horizon = moving.starts[-1]

    def statics() -> None:
        static_runs.cache_clear()
        static_runs(moving)

    run_scenario(moving, "outrider")
    measured = {
        ("table", "static"): _times(lambda: run_table(tables()["a40_7b"], "static:1", setting), simulated),
        ("table", "outrider"): _times(lambda: run_table(tables()["a40_7b"], "outrider", setting), simulated),
        ("events", "static"): _times(statics, horizon * len(moving.candidates)),
        ("events", "outrider"): _times(lambda: run_scenario(moving, "outrider"), horizon),
    }
    return [
        {
            "engine": engine,
            "policy": policy,
            "value": value,
            "limit": WANTED[engine],
            "met": value >= WANTED[engine],
        }
        for (engine, policy), value in measured.items()
    ]


def _times(run: Callable[[], object], simulated: float) -> float:
    spent = []
    for _ in range(REPEATS):
        began = time.process_time()
        run()
        spent.append(time.process_time() - began)
    return simulated / min(spent)
