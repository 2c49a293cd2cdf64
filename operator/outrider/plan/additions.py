"""What pods have beyond what their manifest says, each with its reason, for people who read it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from outrider.api.json_object import Json, as_object, as_objects
from outrider.api.spec import Spec
from outrider.api.tuning import Actuation
from outrider.plan.names import CONTAINER, PLUGIN_CONTAINER
from outrider.runtimes import runtime_of

_VARIABLES: Mapping[str, str] = {
    "HOME": "caches of compiled kernels lie on a volume, since the image is read-only",
    "USER": "PyTorch asks for a name, and the image need not know this user",
    "HF_TOKEN": "the token of spec.model.secretRef",
    "PYTHONPATH": "Python finds Outrider's plugin there",
}
_VOLUMES: Mapping[str, str] = {
    "schedule": "the static schedule, and the public key of the operator",
    "shm": "processes of an engine share memory here; a container has 64 MB otherwise",
    "tmp": "the image is read-only",
    "home": "caches of compiled kernels and downloads",
    "models": "weights of pvc:// or spec.cache",
    "images": "weights of oci://",
    PLUGIN_CONTAINER: "Outrider's plugin, since the image has none",
}


def additions(spec: Spec, template: Json) -> Iterator[tuple[str, str]]:
    """What a pod template has that ``spec`` does not say, and why: flags, then variables, then volumes."""
    pod = as_object(template.get("spec"))
    engine = next((one for one in as_objects(pod.get("containers")) if one.get("name") == CONTAINER), {})
    overlay = as_object(spec.pod_template.spec if spec.pod_template is not None else {})
    words = [str(word) for word in _list(engine.get("args"))]
    stock = spec.speculation.tuning.actuation is Actuation.ROLLOUT
    runtime = runtime_of(spec)
    yield from runtime.flag_additions(spec, words, stock=stock)
    said = {
        name
        for one in as_objects(overlay.get("containers"))
        if one.get("name") == CONTAINER
        for name in _names(one.get("env"))
    }
    names = [
        name for name in _names(engine.get("env")) if name not in said or name in runtime.joined_variables
    ]
    for name, why in runtime.variable_additions(names):
        yield f"env {name}", why
    yield from ((f"env {name}", _VARIABLES[name]) for name in names if name in _VARIABLES)
    if PLUGIN_CONTAINER in _names(pod.get("initContainers")):
        yield f"init container {PLUGIN_CONTAINER}", "copies Outrider's plugin beside the engine"
    theirs = set(_names(overlay.get("volumes")))
    for name in _names(pod.get("volumes")):
        kind = name.rpartition("-")[0] if name.rpartition("-")[2].isdecimal() else name
        if name not in theirs and kind in _VOLUMES:
            yield f"volume {name}", _VOLUMES[kind]


def _names(entries: JsonValue) -> list[str]:
    return [str(entry["name"]) for entry in as_objects(entries) if "name" in entry]


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
