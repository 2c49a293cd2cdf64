"""What ``spec.podTemplate`` may not take away: the parts of a pod by which Outrider starts and rules it.

Compared after the merge, since a patch has many ways to change a field: null, `$patch`, or another entry
under the same name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from posixpath import normpath

from pydantic import JsonValue

from outrider.api.json_object import Json, as_object, as_objects
from outrider.plan.names import (
    CONTAINER,
    CONTROL_PORT_NAME,
    OWNED_FOLDERS,
    PLUGIN_CONTAINER,
    PLUGIN_FOLDER,
    PORT_NAME,
)
from outrider.plan.plugin import SEARCH_PATH
from outrider.runtimes.engine_launch import SCHEDULE_FOLDER

_REMEDIES = {
    "image": "set spec.engine.image",
    "command": "leave it out",
    "args": "set spec.engine.args",
    # Python would look there for the plugin first.
    "workingDir": "leave it out",
}
_PYTHON_HOME = "PYTHONHOME"
"""Variables by which Python finds other modules than those of the image."""
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def with_lists_joined(planned: Json, patch: Json, names: Collection[str]) -> Json:
    """``patch`` with what was planned in front of what it gives to lists in the engine's environment.

    names: of variables that hold lists with commas. Entries without a plain value stay as they are.
    """
    own = {str(one.get("name")): one.get("value") for one in as_objects(_engine(planned).get("env"))}

    def joined(entry: JsonValue) -> JsonValue:
        name, value = (entry.get("name"), entry.get("value")) if isinstance(entry, dict) else (None, None)
        if not (
            isinstance(entry, dict) and isinstance(name, str) and name in names and isinstance(value, str)
        ):
            return entry
        items = [*_items(own.get(name)), *_items(value)] if _items(value) else []
        return {**entry, "value": ",".join(dict.fromkeys(items))}

    def container(one: JsonValue) -> JsonValue:
        if not isinstance(one, dict) or one.get("name") != CONTAINER or not isinstance(one.get("env"), list):
            return one
        return {**one, "env": [joined(entry) for entry in _list(one.get("env"))]}

    spec = _spec(patch)
    if not isinstance(spec.get("containers"), list):
        return patch
    containers: list[JsonValue] = [container(one) for one in _list(spec.get("containers"))]
    return {**patch, "spec": {**spec, "containers": containers}}


def keep_owned_parts(
    planned: Json, merged: Json, *, variables: Mapping[str, str], joined: Mapping[str, Set[str]]
) -> None:
    """Compare two pod templates.

    variables: names in the engine's environment that are Outrider's, and what to do instead.
    joined: those of them that may hold more than was planned, and the items that only Outrider adds.

    Raises:
        ValueError: a part of the engine that Outrider owns is missing or another one; the message names it.
    """
    before, after = _engine(planned), _engine(merged)
    for part, remedy in _lost(before, after, variables, joined):
        raise ValueError(f"containers[{CONTAINER}].{part} belongs to Outrider: {remedy}")
    for volume in sorted(_volumes_of(before)):
        if _named(_spec(planned), "volumes", volume) != _named(_spec(merged), "volumes", volume):
            raise ValueError(f"volumes[{volume}] belongs to Outrider: leave it out, or use another name")
    brings, brought = (_named(_spec(one), "initContainers", PLUGIN_CONTAINER) for one in (planned, merged))
    if brings != brought:
        raise ValueError(
            f"initContainers[{PLUGIN_CONTAINER}] belongs to Outrider: leave it out, or use another name"
        )
    if brings and (other := _other_user_of(PLUGIN_CONTAINER, _spec(merged))) is not None:
        raise ValueError(
            f"volumes[{PLUGIN_CONTAINER}] belongs to Outrider: do not mount it in container {other}"
        )
    labels = _labels(merged)
    for name, value in _labels(planned).items():
        if labels.get(name) != value:
            raise ValueError(f"the label {name} belongs to Outrider: use another one")


def _lost(
    before: Json, after: Json, variables: Mapping[str, str], joined: Mapping[str, Set[str]]
) -> Iterator[tuple[str, str]]:
    """Each owned part that differs, and what to do."""
    for part, remedy in _REMEDIES.items():
        if before.get(part) != after.get(part):
            yield part, remedy
    for name in sorted(variables):
        wanted, found = _named(before, "env", name), _named(after, "env", name)
        if wanted != found and not (name in joined and _holds(wanted, found, joined[name])):
            yield f"env[{name}]", variables[name]
    if not _has_its_port(before, after, PORT_NAME):
        yield f"ports[{PORT_NAME}]", "set spec.engine.port, and give other ports another name"
    if not _has_its_port(before, after, CONTROL_PORT_NAME):
        yield f"ports[{CONTROL_PORT_NAME}]", "give other ports another name and number"
    for probe in _PROBES:
        if as_object(before.get(probe)).get("httpGet") != as_object(after.get(probe)).get("httpGet"):
            yield f"{probe}.httpGet", "change nothing but its times and thresholds"
    if _pre_stop(before) and not _pre_stop(after):
        yield "lifecycle.preStop", "leave it out, or write another handler in its place"
    planned, merged = _mounts(before), _mounts(after)
    for path in [*planned, *(path for path in merged if path not in planned)]:
        if planned.get(path, []) != merged.get(path, []):
            folders = " or ".join(OWNED_FOLDERS)
            yield f"volumeMounts[{path}]", f"mount neither at {folders}, nor above or below them"
    planned_path = _named(before, "env", SEARCH_PATH)
    lost = bool(planned_path) and not _named(after, "env", SEARCH_PATH)
    if lost or (_finds_the_plugin(before) and not _leaves_the_plugin_first(after)):
        yield f"env[{SEARCH_PATH}]", f"let it begin with {PLUGIN_FOLDER}, or leave it out"
    if _finds_the_plugin(before) and _named(after, "env", _PYTHON_HOME):
        yield f"env[{_PYTHON_HOME}]", "leave it out"


def _engine(template: Json) -> Json:
    found = _named(_spec(template), "containers", CONTAINER)
    if len(found) != 1:
        raise ValueError(f"containers[{CONTAINER}] belongs to Outrider: it has to be there, once")
    return found[0]


def _has_its_port(before: Json, after: Json, name: str) -> bool:
    """The port that was planned under a name, with more said of it or not; none where none was planned."""
    wanted, found = _named(before, "ports", name), _named(after, "ports", name)
    pairs = zip(wanted, found, strict=False)
    return len(wanted) == len(found) and all(port.items() <= other.items() for port, other in pairs)


def _holds(wanted: list[Json], found: list[Json], own: Set[str]) -> bool:
    """Whether a list with commas has more than what was planned, and of Outrider's own the same."""
    if len(wanted) != 1 or len(found) != 1 or found[0].keys() != wanted[0].keys():
        return False
    before, after = (set(_items(one[0].get("value"))) for one in (wanted, found))
    return before < after and after & own == before & own


def _items(value: JsonValue) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else []


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _volumes_of(container: Json) -> set[str]:
    """Names of the volumes that owned mounts show."""
    return {str(mount.get("name")) for mounts in _mounts(container).values() for mount in mounts}


def _pre_stop(container: Json) -> Json:
    return as_object(as_object(container.get("lifecycle")).get("preStop"))


def _mounts(container: Json) -> dict[str, list[Json]]:
    """What is mounted at, below or above an owned folder, by its path as it is written."""
    found: dict[str, list[Json]] = {}
    for field, key in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        for mount in as_objects(container.get(field)):
            path = str(mount.get(key))
            if any(_overlap(path, folder) for folder in OWNED_FOLDERS):
                found.setdefault(path, []).append(mount)
    return found


def _overlap(path: str, folder: str) -> bool:
    """One is the other or lies in it, however the path is spelled."""
    # From the root, as the kubelet reads a relative one; of several slashes there POSIX keeps two.
    one, other = ([part for part in normpath(f"/{each}").split("/") if part] for each in (path, folder))
    return all(mine == theirs for mine, theirs in zip(one, other, strict=False))


def _other_user_of(volume: str, pod: Json) -> str | None:
    """The first container that mounts the volume of the plugin and is neither the engine nor brings it."""
    users = (
        str(one.get("name"))
        for field in ("initContainers", "containers")
        for one in as_objects(pod.get(field))
        if _named(one, "volumeMounts", volume)
    )
    return next((name for name in users if name not in (CONTAINER, PLUGIN_CONTAINER)), None)


def _finds_the_plugin(planned: Json) -> bool:
    """The engine is started with the plugin; a stock engine may have any image and search path."""
    return any(mount.get("mountPath") == SCHEDULE_FOLDER for mount in as_objects(planned.get("volumeMounts")))


def _leaves_the_plugin_first(container: Json) -> bool:
    """The search path is the image's own, or begins with the plugin's folder."""
    values = [entry.get("value") for entry in _named(container, "env", SEARCH_PATH)]
    return all(isinstance(value, str) and value.split(":")[0] == PLUGIN_FOLDER for value in values)


def _named(holder: Json, field: str, name: str) -> list[Json]:
    return [entry for entry in as_objects(holder.get(field)) if entry.get("name") == name]


def _labels(template: Json) -> Json:
    return as_object(as_object(template.get("metadata")).get("labels"))


def _spec(template: Json) -> Json:
    return as_object(template.get("spec"))
