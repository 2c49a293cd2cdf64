"""What ``spec.podTemplate`` may not take away: the parts of a pod by which Outrider starts and rules it.

Compared after the merge, since a patch has many ways to change a field: null, `$patch`, or another entry
under the same name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pydantic import JsonValue

from outrider.plan.names import CONTAINER, CONTROL_PORT_NAME, PORT_NAME, SCHEDULE_FOLDER
from outrider.plan.overlay import Json

_REMEDIES = {
    "image": "set spec.engine.image",
    "command": "leave it out",
    "args": "set spec.engine.args",
}
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def keep_owned_parts(planned: Json, merged: Json, *, variables: Collection[str]) -> None:
    """Compare two pod templates. variables: names in the engine's environment that are Outrider's.

    Raises:
        ValueError: a part of the engine that Outrider owns is missing or another one; the message names it.
    """
    before, after = _engine(planned), _engine(merged)
    for part, remedy in _lost(before, after, variables):
        raise ValueError(f"containers[{CONTAINER}].{part} belongs to Outrider: {remedy}")
    for volume in sorted(_volumes_of(before)):
        if _named(_spec(planned), "volumes", volume) != _named(_spec(merged), "volumes", volume):
            raise ValueError(f"volumes[{volume}] belongs to Outrider: leave it out, or use another name")
    labels = _labels(merged)
    for name, value in _labels(planned).items():
        if labels.get(name) != value:
            raise ValueError(f"the label {name} belongs to Outrider: use another one")


def _lost(before: Json, after: Json, variables: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each owned part that differs, and what to do."""
    for part, remedy in _REMEDIES.items():
        if before.get(part) != after.get(part):
            yield part, remedy
    for name in sorted(variables):
        if _named(before, "env", name) != _named(after, "env", name):
            yield f"env[{name}]", "leave it out, and `$patch: replace` and null for the list"
    if not _has_its_port(before, after, PORT_NAME):
        yield f"ports[{PORT_NAME}]", "set spec.engine.port, and give other ports another name"
    if not _has_its_port(before, after, CONTROL_PORT_NAME):
        yield f"ports[{CONTROL_PORT_NAME}]", "give other ports another name and number"
    for probe in _PROBES:
        if _object(before.get(probe)).get("httpGet") != _object(after.get(probe)).get("httpGet"):
            yield f"{probe}.httpGet", "change nothing but its times and thresholds"
    if _pre_stop(before) and not _pre_stop(after):
        yield "lifecycle.preStop", "leave it out, or write another handler in its place"
    if _plugins_mounts(before) != _plugins_mounts(after):
        yield f"volumeMounts[{SCHEDULE_FOLDER}]", "mount at another path"


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


def _volumes_of(container: Json) -> set[str]:
    """Names of the volumes that owned mounts show."""
    return {str(mount.get("name")) for mount in _plugins_mounts(container)}


def _pre_stop(container: Json) -> Json:
    return _object(_object(container.get("lifecycle")).get("preStop"))


def _plugins_mounts(container: Json) -> list[Json]:
    mounts = _objects(container.get("volumeMounts"))
    return [mount for mount in mounts if mount.get("mountPath") == SCHEDULE_FOLDER]


def _named(holder: Json, field: str, name: str) -> list[Json]:
    return [entry for entry in _objects(holder.get(field)) if entry.get("name") == name]


def _labels(template: Json) -> Json:
    return _object(_object(template.get("metadata")).get("labels"))


def _spec(template: Json) -> Json:
    return _object(template.get("spec"))


def _object(value: JsonValue) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: JsonValue) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
