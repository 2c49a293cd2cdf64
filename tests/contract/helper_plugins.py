"""Plugins for vLLM that tests bring along, beside Outrider's own: a launch names those that it loads.

They run in the engine's Python, not in that of pytest.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tests.contract import drafter_witness, quick_start, synthetic_sampler

MODULES = (drafter_witness, quick_start, synthetic_sampler)


def install(folder: Path) -> None:
    """Put them into a folder for PYTHONPATH. Each is a module with a ``NAME`` and a ``register``."""
    information = folder / "outrider_test_plugins-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: outrider-test-plugins\nVersion: 1\n")
    entries = [f"{module.NAME} = {module.NAME}:register" for module in MODULES]
    (information / "entry_points.txt").write_text("\n".join(["[vllm.general_plugins]", *entries, ""]))
    for module in MODULES:
        (folder / f"{module.NAME}.py").write_text(Path(str(module.__file__)).read_text())


def loaded(names: Collection[str]) -> str:
    """VLLM_PLUGINS of an engine that loads Outrider's plugin and these."""
    return ",".join(("outrider", "outrider_api", *names))
