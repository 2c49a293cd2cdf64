"""The environment of an engine's container: what becomes a field, what is carried, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from outrider.api.json_object import Json
from outrider.importing.findings import Findings, is_secret
from outrider.importing.variables import expanded
from outrider.importing.workload import an_object, objects, text
from outrider.runtimes.runtime import Runtime

_HUB_TOKEN = "HF_TOKEN"
_HUB_TOKENS = (_HUB_TOKEN, "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN")
_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
_RUNNERS: Mapping[object, str] = {"0": "V1", "1": "V2"}
_LEFT_OUT: Mapping[str, str] = {
    "HOME": "Outrider runs the engine with a home of its own; leave the variable out",
    "USER": "Outrider sets it; leave the variable out",
    "PYTHONPATH": "Python would look for Outrider's plugin there first; install the modules in the image",
    "PYTHONHOME": "Python would not find Outrider's plugin; leave the variable out",
}


@dataclass(frozen=True, slots=True)
class Environment:
    """What became of the variables."""

    carried: list[JsonValue]  # for `spec.podTemplate`
    token: Json | None  # `spec.model.secretRef`
    runner: str | None  # `spec.engine.modelRunner`


def values_of(container: Json) -> dict[str, str]:
    """The variables whose value the source has, and may show.

    As in Kubernetes, the last entry of a name counts, and ``$(NAME)`` means a variable that stands before it.
    """
    known = dict[str, str]()
    for entry in objects(container.get("env")):
        name, value = str(entry.get("name")), _literal(entry)
        meant = None if value is None else expanded(value, known)
        if meant is None or is_secret(name, meant):
            known.pop(name, None)
        else:
            known[name] = meant
    return known


def names_of(container: Json) -> frozenset[str]:
    """The variables that the container declares, those with a hidden value too."""
    return frozenset(str(entry.get("name")) for entry in objects(container.get("env")))


def environment(
    container: Json, extra: Mapping[str, str], *, from_hub: bool, runtime: Runtime, findings: Findings
) -> Environment:
    """Sort the variables of a container. extra: those that its command sets; from_hub: weights are hf://."""
    own: list[JsonValue] = [{"name": name, "value": value} for name, value in extra.items()]
    entries: list[JsonValue] = [*objects(container.get("env")), *own]
    carried = dict[str, JsonValue]()
    token: Json | None = None
    runner: str | None = None
    for entry in objects(entries):
        name, literal = text(entry.get("name")), _literal(entry)
        if name is None:
            continue
        key = _secret_key(entry)
        if name in _HUB_TOKENS and from_hub and key is not None:
            if token is not None and token != key:
                findings.dropped(
                    f"env {name}", f"{_HUB_TOKEN} is set from another Secret; keep one of the two"
                )
            elif name != _HUB_TOKEN:
                findings.check(
                    f"env {name}", f"spec.model.secretRef has the Secret; vLLM gets it as {_HUB_TOKEN}"
                )
            token = token or key
        elif name == _RUNNER and literal in _RUNNERS:
            runner = _RUNNERS[literal]
        elif (why := _refusal(name, literal, runtime, from_hub=from_hub)) is not None:
            findings.dropped(f"env {name}", why)
        else:
            carried[name] = dict(entry)
    return Environment(list(carried.values()), token, runner)


def without_secrets(container: Json, findings: Findings) -> Json:
    """A container beside the engine, without variables whose value may be secret."""
    name = text(container.get("name")) or "?"
    kept = list[JsonValue]()
    for entry in objects(container.get("env")):
        variable = str(entry.get("name"))
        if is_secret(variable, entry.get("value")):
            findings.dropped(f"env {variable} of container {name}", _SECRET)
        else:
            kept.append(entry)
    rest = {key: value for key, value in container.items() if key != "env"}
    return {**rest, "env": kept} if kept else rest


_SECRET = (
    "its value looks secret and stands in the source in plain text; put it into a Secret and use "
    "valueFrom.secretKeyRef in spec.podTemplate"
)


def _refusal(name: str, literal: str | None, runtime: Runtime, *, from_hub: bool) -> str | None:
    if name in _LEFT_OUT:
        return _LEFT_OUT[name]
    if name in runtime.owned_variables and not (name in runtime.joined_variables and literal is not None):
        return f"Outrider sets it; {runtime.owned_variables[name]}"
    if is_secret(name, literal):
        if name in _HUB_TOKENS and from_hub:
            return (
                "its value stands in the source in plain text; put it into a Secret and set "
                "spec.model.secretRef: {name: SECRET, key: KEY}"
            )
        return _SECRET
    return None


def _literal(entry: Json) -> str | None:
    if "valueFrom" in entry:
        return None
    value = entry.get("value", "")
    return value if isinstance(value, str) else None


def _secret_key(entry: Json) -> Json | None:
    reference = an_object(an_object(entry.get("valueFrom")).get("secretKeyRef"))
    name, key = text(reference.get("name")), text(reference.get("key"))
    return None if name is None or key is None else {"name": name, "key": key}
