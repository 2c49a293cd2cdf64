"""Environment variables of vLLM and of Outrider's plugin in it."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.api.spec import Spec
from outrider.plan.artifacts import uses_hub
from outrider.plan.names import PUBLIC_KEY_FILE, SCHEDULE_FILE, SCHEDULE_FOLDER
from outrider.plan.runtimes.vllm.methods import ENGINE_METHODS

_PLUGINS = "outrider,outrider_api"
"""Entry points of Outrider's plugin; vLLM loads those that are named, and no others."""
_NO_PLUGINS = ""
"""A stock engine, even where the image has the plugin."""

_PLUGIN_VARIABLES: Mapping[str, str] = {
    "OUTRIDER_STATIC_SCHEDULE_FILE": f"{SCHEDULE_FOLDER}/{SCHEDULE_FILE}",
    "OUTRIDER_PUBLIC_KEY_FILE": f"{SCHEDULE_FOLDER}/{PUBLIC_KEY_FILE}",
    # In the pod's own volume, which outlives a container that a drafter ended.
    "OUTRIDER_SELF_TEST_FILE": "/tmp/outrider-self-test.json",
    "OUTRIDER_DRAIN_FILE": "/tmp/outrider-drain",
}

POD_UID_VARIABLE = "OUTRIDER_POD_UID"
"""Requests are signed for one pod, by its UID, which no other pod ever has."""

OWNED_VARIABLES = frozenset(
    {"VLLM_PLUGINS", "VLLM_USE_V2_MODEL_RUNNER", POD_UID_VARIABLE, *_PLUGIN_VARIABLES}
)
"""Another value would take the engine out of Outrider's control, or let it crash on a pushed table."""


def environment(spec: Spec, *, stock: bool) -> dict[str, str]:
    """What vLLM and the plugin read. stock: the engine is started without the plugin."""
    method = ENGINE_METHODS[spec.speculation.method]
    variables = {
        "VLLM_PLUGINS": _NO_PLUGINS if stock else _PLUGINS,
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        **method.variables,
    }
    if method.runner is not None:
        variables["VLLM_USE_V2_MODEL_RUNNER"] = method.runner.value
    if not uses_hub(spec):
        variables["HF_HUB_OFFLINE"] = "1"
    return variables if stock else {**variables, **_PLUGIN_VARIABLES}
