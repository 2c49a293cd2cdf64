"""How a pod gets Outrider's plugin beside an engine whose image lacks it. Pure."""

from __future__ import annotations

from pydantic import JsonValue

from outrider.api.json_object import Json, as_objects
from outrider.plan.names import PLUGIN_CONTAINER, PLUGIN_FOLDER

SEARCH_PATH = "PYTHONPATH"
"""Python finds modules and entry points by it; it holds folders with colons between them."""
_TARGET = "/plugin"
"""Where the plugin's image copies its files to."""
_VOLUME_SIZE = "64Mi"
_RESOURCES: Json = {"cpu": "100m", "memory": "64Mi"}
"""Both requested and the limit, so that a Guaranteed pod stays one and a quota finds its numbers. The pod
reserves no more by it, because engines request more and start afterwards."""


def with_plugin(pod: Json, *, container: str, image: str) -> Json:
    """``pod``, the spec of a pod, with the plugin of an image on the search path of one container.

    Repeated calls have no further effect. Of a search path that the container has, all stays behind the
    plugin's folder. ``pod`` is not changed.

    Raises:
        ValueError: the search path of the container comes from elsewhere, so nothing can be put before it.
    """
    containers: list[JsonValue] = [
        _engine(one) if one.get("name") == container else one for one in as_objects(pod.get("containers"))
    ]
    bringing: Json = {
        "name": PLUGIN_CONTAINER,
        "image": image,
        "resources": {"requests": dict(_RESOURCES), "limits": dict(_RESOURCES)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": PLUGIN_CONTAINER, "mountPath": _TARGET}],
    }
    volume: Json = {"name": PLUGIN_CONTAINER, "emptyDir": {"sizeLimit": _VOLUME_SIZE}}
    return {
        **pod,
        # First, because the init containers of a team may last.
        "initContainers": [bringing, *_others(pod, "initContainers")],
        "containers": containers,
        "volumes": [*_others(pod, "volumes"), volume],
    }


def _engine(container: Json) -> Json:
    mounts = [one for one in as_objects(container.get("volumeMounts")) if one.get("name") != PLUGIN_CONTAINER]
    mount: Json = {"name": PLUGIN_CONTAINER, "mountPath": PLUGIN_FOLDER, "readOnly": True}
    return {**container, "env": _environment(container), "volumeMounts": [*mounts, mount]}


def _environment(container: Json) -> list[JsonValue]:
    entries = as_objects(container.get("env"))
    own = next((one for one in entries if one.get("name") == SEARCH_PATH), None)
    if own is None:
        return [*entries, {"name": SEARCH_PATH, "value": PLUGIN_FOLDER}]
    value = own.get("value", "")
    if "valueFrom" in own or not isinstance(value, str):
        raise ValueError(f"env[{SEARCH_PATH}] has no plain value, so {PLUGIN_FOLDER} cannot be put before it")
    folders = [PLUGIN_FOLDER, *(part for part in value.split(":") if part not in ("", PLUGIN_FOLDER))]
    joined: Json = {"name": SEARCH_PATH, "value": ":".join(folders)}
    return [joined if one is own else one for one in entries]


def _others(pod: Json, field: str) -> list[JsonValue]:
    return [one for one in as_objects(pod.get(field)) if one.get("name") != PLUGIN_CONTAINER]
