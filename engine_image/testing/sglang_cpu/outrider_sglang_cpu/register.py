"""Lets SGLang take its attention backend for CPUs on any CPU.

SGLang has one that drafts, ``intel_amx``, and replaces it where the CPU has no AMX
(`_attention_backend_platform_fallbacks` in ``sglang/srt/arg_groups/overrides.py``). Without compiled kernels
nothing needs AMX. SGLang's other choices for such CPUs stay.
"""

from __future__ import annotations

import os

SIMULATED = "OUTRIDER_TWIN"
"""Variable of a simulated engine, see `outrider_sglang_cpu.simulation`."""


def register() -> None:
    """Entry point ``outrider_cpu`` of ``sglang.srt.plugins``, which SGLang runs in each of its processes."""
    from sglang.srt.runtime_context import override_platform

    override_platform(has_amx=True).install()
    if os.environ.get(SIMULATED):
        from outrider_sglang_cpu.simulation import Simulation

        Simulation().attach()
