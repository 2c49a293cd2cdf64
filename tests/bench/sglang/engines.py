"""One SGLang per run of an arm: stock with either strategy, or with Outrider's plugin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.sglang.plan import CANDIDATES, MAX_NUM_SEQS, START
from tests.contract.engine import Engine
from tests.contract.engine_process import begin
from tests.contract.sglang.engine import install_plugin, running_engine
from tests.contract.sglang.simulated import STOCK, simulated_launch
from tests.contract.sglang.simulated import THROUGHPUT_AWARE as STRATEGY
from tests.contract.twin import install_twin

EMA, THROUGHPUT_AWARE, OUTRIDER, FIXED = "sglang-ema", "sglang-throughput-aware", "outrider", "fixed"
ARMS = (EMA, THROUGHPUT_AWARE, OUTRIDER)
"""`FIXED` follows Outrider in its engine."""
CLIENTS = "twin_clients"
"""As `outrider_sglang_cpu.simulation` names it, which only imports beside PyTorch."""
SWEEP_SECONDS = 60
"""Of the machine's time, for a startup profile as a GPU measures it in its 20 s."""
_SLOTS = {
    "1": {"candidate_steps": [1, 3, 5, 7], "down_hysteresis": -0.25},
    "8": {"candidate_steps": [0, 1, 3], "down_hysteresis": 0.0},
    "32": {"candidate_steps": [0, 1], "down_hysteresis": 0.0},
    "64": {"candidate_steps": [0], "down_hysteresis": 0.0},
}
"""SGLang's default lists by batch size. Source: SGLang 0.5.23, ``speculative/adaptive_spec_params.py``."""


@dataclass(frozen=True, slots=True)
class Installed:
    """Folders with the plugin, and with the step times of simulated engines."""

    plugin: Path
    twin: Path


def install(folder: Path) -> Installed:
    """Build and install what engines load."""
    plugin, twin = folder / "plugin", folder / "twin"
    plugin.mkdir()
    twin.mkdir()
    return Installed(install_plugin(plugin), install_twin(twin))


@contextmanager
def running(
    arm: str, installed: Installed, folder: Path, simulation: Mapping[str, object]
) -> Iterator[Engine]:
    """An engine of an arm that serves; it ends with the block. simulation: see `plan.settings`."""
    flags = [
        *("--max-running-requests", str(MAX_NUM_SEQS)),
        *("--max-total-tokens", str(1024 * MAX_NUM_SEQS)),
    ]
    stock = arm in (EMA, THROUGHPUT_AWARE)
    if stock:
        slots = folder / "slots.json"
        slots.write_text(json.dumps(_SLOTS))
        flags += [
            *("--speculative-adaptive-config", str(slots)),
            *("--speculative-num-steps", str(START)),
            *("--speculative-num-draft-tokens", str(START + 1)),
        ]
    profiled = {
        "OUTRIDER_SWEEP": "1",
        "OUTRIDER_SWEEP_SECONDS": str(SWEEP_SECONDS),
        "OUTRIDER_SWEEP_SHARE": "1",
    }
    launch = simulated_launch(
        installed.plugin,
        installed.twin,
        simulation,
        policy=STRATEGY if arm == THROUGHPUT_AWARE else None,
        plugins=STOCK if stock else "outrider",
        candidates=CANDIDATES,
        flags=flags,
        **({} if stock else profiled),
    )
    with running_engine(installed.plugin, folder, launch, start=begin) as engine:
        yield engine
