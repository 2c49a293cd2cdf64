"""Environment variables of SGLang and of Outrider's plugin in it."""

from __future__ import annotations

from collections.abc import Mapping, Set

from outrider.api.tuning import Sweep
from outrider.runtimes import plugin
from outrider.runtimes.artifacts import uses_hub
from outrider.runtimes.engine_launch import EngineLaunch
from outrider.runtimes.sglang import adaptive
from outrider_protocol.environment import CANDIDATES_VARIABLE, SWEEP_VARIABLE

PLUGINS_VARIABLE = "SGLANG_PLUGINS"
_PLUGIN = "outrider"
"""Entry point of Outrider's plugin; SGLang loads those that are named, and no others."""
_NO_PLUGIN = "none"
"""No entry point has this name. SGLang reads an empty list as a permission for every plugin."""

OWNED_VARIABLES: Mapping[str, str] = {
    PLUGINS_VARIABLE: "name other plugins in it as a plain value; they are loaded beside Outrider's",
    adaptive.VARIABLE: "set spec.speculation.candidates",
    **plugin.OWNED,
    "SGLANG_RUST_SERVER": plugin.LEFT_OUT,
    "DUMPER_SERVER_PORT": plugin.LEFT_OUT,
}
"""Name -> what to do instead. SGLang's server in Rust loads no plugins. The port of its dumper takes
unsigned requests for the plugin."""
JOINED_VARIABLES: Mapping[str, Set[str]] = {PLUGINS_VARIABLE: frozenset({_PLUGIN, _NO_PLUGIN})}


def environment(launch: EngineLaunch) -> dict[str, str]:
    """What SGLang and the plugin read."""
    spec = launch.spec
    variables = {PLUGINS_VARIABLE: _NO_PLUGIN if launch.stock else _PLUGIN, "DO_NOT_TRACK": "1"}
    configuration = adaptive.configuration(spec, launch.table)
    if configuration is not None:
        variables[adaptive.VARIABLE] = configuration
    if not uses_hub(spec):
        variables["HF_HUB_OFFLINE"] = "1"
    if launch.stock:
        return variables
    if configuration is not None:
        variables[CANDIDATES_VARIABLE] = ",".join(map(str, spec.candidates()))
    sweep = {SWEEP_VARIABLE: "0"} if spec.speculation.tuning.sweep is Sweep.NEVER else {}
    return {**variables, **plugin.VARIABLES, **sweep}
