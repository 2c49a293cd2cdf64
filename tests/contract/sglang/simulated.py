"""SGLang with a played clock and played acceptance (`outrider_sglang_cpu.simulation`): how it is started."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from outrider_twin.batch import TEXT
from tests.contract.engine import PLAIN, REQUEST_SECONDS, Engine, completion_body
from tests.contract.engine_process import SGLANG
from tests.contract.sglang.engine import CANDIDATES, Launch

ROOT = Path(__file__).parents[3]
THROUGHPUT_AWARE = "tests.bench.sglang.rule:InSGLang"
"""SGLang's later strategy in place of its own policy."""
STOCK = "none"
"""SGLANG_PLUGINS without Outrider's."""


def simulated_launch(
    plugin: Path,
    twin: Path,
    settings: Mapping[str, object],
    *,
    policy: str | None = None,
    plugins: str = "outrider",
    candidates: Sequence[int] = CANDIDATES,
    flags: Sequence[str] = (),
    **variables: str,
) -> Launch:
    """settings: of `OUTRIDER_TWIN`. policy: ``module:function`` in place of SGLang's own."""
    folders, played = [plugin, twin, SGLANG], {"OUTRIDER_TWIN": json.dumps(settings)}
    if policy is not None:
        folders += [ROOT / "operator", ROOT / "operator" / "lab", ROOT]
        played["OUTRIDER_TWIN_POLICY"] = policy
    path = os.pathsep.join(map(str, folders))
    return Launch(candidates, plugins, flags, {"PYTHONPATH": path, **played, **variables})


def ask(engine: Engine, text: str, name: int, *, tokens: int) -> None:
    """One answer of a class of text. name: makes the prompt, and with it the text, another."""
    body = completion_body(tokens, f"{text} {name}: ") | {"custom_params": {TEXT: text}}
    answer = httpx.post(f"{engine.url}/v1/completions", json=body, timeout=REQUEST_SECONDS, verify=PLAIN)
    answer.raise_for_status()


def rounds(engine: Engine) -> Mapping[str, int]:
    """Rounds since the start by K, as the simulation counted them."""
    answer = httpx.get(f"{engine.url}/server_info", timeout=REQUEST_SECONDS, verify=PLAIN)
    answer.raise_for_status()
    found: Mapping[str, int] = answer.json()["internal_states"][0]["outrider_twin"]["rounds"]
    return found
