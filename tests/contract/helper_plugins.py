"""Plugins for vLLM that tests bring along, beside Outrider's own: a launch names those that it loads.

They run in the engine's Python, not in that of pytest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import ModuleType

from tests.contract import (
    adaptive,
    asynchronous,
    blind_drafter,
    drafter_witness,
    quick_start,
    stale_state,
    synthetic_sampler,
)

MODULES = (
    adaptive,
    asynchronous,
    blind_drafter,
    drafter_witness,
    quick_start,
    stale_state,
    synthetic_sampler,
)


def install(folder: Path) -> None:
    """Put them into a folder for PYTHONPATH. Each is a module with a ``NAME`` and a ``register``."""
    entries = {module.NAME: f"{module.NAME}:register" for module in MODULES}
    install_modules(folder, "test-plugins", entries, {module.NAME: module for module in MODULES})


def install_modules(
    folder: Path, name: str, entries: Mapping[str, str], modules: Mapping[str, ModuleType]
) -> None:
    """Put modules into a folder for PYTHONPATH, by the names that they have there, with entry points.

    name: of their distribution. entries: ``module:function`` by name of the plugin.
    """
    information = folder / f"outrider_{name.replace('-', '_')}-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: outrider-{name}\nVersion: 1\n")
    lines = [f"{plugin} = {function}" for plugin, function in entries.items()]
    (information / "entry_points.txt").write_text("\n".join(["[vllm.general_plugins]", *lines, ""]))
    for own, module in modules.items():
        (folder / f"{own}.py").write_text(Path(str(module.__file__)).read_text())


def loaded(names: Collection[str]) -> str:
    """VLLM_PLUGINS of an engine that loads Outrider's plugin and these."""
    return ",".join(("outrider", "outrider_api", *names))
