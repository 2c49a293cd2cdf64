"""A report of GuideLLM and the result of a bench."""

from __future__ import annotations

from pathlib import Path

from outrider.bench.arms import Arm
from outrider.bench.guidellm import Slice
from outrider.bench.result import Result, Setting

REPORT = (Path(__file__).parent / "guidellm_0_8_1.json").read_text()
SETTING = Setting("prod", "qwen3", 8, 20.0, 2, 128, 0)


def a_result(**rates: list[float]) -> Result:
    """Slices by K; as_it_is for the first arm."""
    arms = {Arm(None if name == "as_it_is" else int(name[1:])): found for name, found in rates.items()}
    return Result(
        SETTING, {arm: [Slice(rate, 20.0, 5.0, 9, 0) for rate in found] for arm, found in arms.items()}
    )
