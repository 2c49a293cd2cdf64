"""Environment variables of vLLM and of Outrider's plugin in it."""

from __future__ import annotations

from collections.abc import Mapping, Set

from outrider.api.spec import Spec
from outrider.api.tuning import Sweep
from outrider.runtimes import plugin
from outrider.runtimes.artifacts import uses_hub
from outrider.runtimes.vllm.methods import ENGINE_METHODS
from outrider.runtimes.vllm.runner import TablePlace, launch_form
from outrider_protocol.environment import CANDIDATES_VARIABLE, K0_VARIABLE, SWEEP_VARIABLE
from outrider_protocol.methods import K0
from outrider_protocol.releases import Runner

PLUGINS_VARIABLE = "VLLM_PLUGINS"
_PLUGINS = "outrider,outrider_api"
"""Entry points of Outrider's plugin; vLLM loads those that are named, and no others."""
_NO_PLUGINS = ""
"""A stock engine, even where the image has the plugin."""

RUNNER_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"

OWNED_VARIABLES: Mapping[str, str] = {
    PLUGINS_VARIABLE: "name other plugins in it as a plain value; they are loaded beside Outrider's",
    RUNNER_VARIABLE: "set spec.engine.modelRunner",
    **plugin.OWNED,
}
"""Name -> what to do instead. Another value would take the engine out of Outrider's control, let it end at a
pushed schedule, or contradict the model's own fields."""

JOINED_VARIABLES: Mapping[str, Set[str]] = {PLUGINS_VARIABLE: frozenset(_PLUGINS.split(","))}
"""Lists with commas: what a manifest names comes behind what Outrider needs. Name -> what it may not add."""


def environment(spec: Spec, *, stock: bool) -> dict[str, str]:
    """What vLLM and the plugin read. stock: the engine is started without the plugin."""
    method = ENGINE_METHODS[spec.speculation.method]
    variables = {
        PLUGINS_VARIABLE: _NO_PLUGINS if stock else _PLUGINS,
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        **method.variables,
    }
    form = launch_form(spec, stock=stock)
    if form.runner is not None:
        variables[RUNNER_VARIABLE] = "1" if form.runner is Runner.V2 else "0"
    if form.table is TablePlace.PLUGIN:
        variables[CANDIDATES_VARIABLE] = ",".join(map(str, spec.candidates()))
    if not uses_hub(spec):
        variables["HF_HUB_OFFLINE"] = "1"
    if stock:
        return variables
    tuning = spec.speculation.tuning
    # Auto is what the plugin does without the variable: so it restarts no pod that runs already.
    k0 = {} if tuning.k0 is K0.AUTO else {K0_VARIABLE: tuning.k0.value}
    sweep = {SWEEP_VARIABLE: "0"} if tuning.sweep is Sweep.NEVER else {}
    return {**variables, **plugin.VARIABLES, **k0, **sweep}
