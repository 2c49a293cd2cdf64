"""Outrider's plugin in the pods of a manifest that stays its owner's, for ``outrider inject``. Pure.

The pods keep their command, image and probes. What is added is what the planner adds to pods of its own.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue, ValidationError

from outrider.api.engines import RuntimeKind
from outrider.api.json_object import Json, as_object, as_objects
from outrider.api.launch import Launch
from outrider.api.mistakes import validation_message
from outrider.api.resource import SpeculativeModel
from outrider.importing.command import engine_command
from outrider.importing.conversion import Options, convert
from outrider.importing.documents import documents
from outrider.importing.engines import reader_of_image
from outrider.importing.environment import names_of, values_of
from outrider.importing.findings import Findings, ImportRefused, NoEngine, Outcome
from outrider.importing.flags import completed, parse
from outrider.importing.images import release_of
from outrider.importing.speculation import ONE_BY_ONE, SPECULATIVE_FLAG, TABLE, take_config
from outrider.importing.workload import Workload, engine_container, text, words_of
from outrider.plan.names import PLUGIN_ANNOTATION, schedule_config_map
from outrider.plan.plugin import with_plugin
from outrider.runtimes import RUNTIMES
from outrider.runtimes.engine_launch import PUBLIC_KEY_FILE, SCHEDULE_FOLDER, engine_launch
from outrider.runtimes.vllm.arguments import speculative_config
from outrider.runtimes.vllm.environment import PLUGINS_VARIABLE, RUNNER_VARIABLE
from outrider.runtimes.vllm.flags import FLAGS
from outrider_protocol.environment import (
    CANDIDATES_VARIABLE,
    POD_UID_VARIABLE,
    PUBLIC_KEY_FILE_VARIABLE,
    SELF_TEST_FILE_VARIABLE,
)
from outrider_protocol.releases import DEFAULT_RELEASE, NEWEST_VERSION, OLDEST_VERSION, version_text

KEY_VOLUME = "outrider-schedule"
"""Volume with the public key of the SpeculativeModel, once that exists."""
STATE_VOLUME = "outrider-state"
STATE_FOLDER = "/run/outrider"
"""Where an engine remembers which K ended it; it outlives the container."""
_OF_THE_SERVER = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
)
"""Metadata that the API server sets. A manifest with it could be applied until the object changes."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_FROM_THE_LAUNCH = (PLUGINS_VARIABLE, RUNNER_VARIABLE, CANDIDATES_VARIABLE)
_ELSEWHERE = "hf://organisation/name"
"""In place of a model that another field of the object names; how K changes does not depend on it."""
_RUNTIME = RUNTIMES[RuntimeKind.VLLM]


@dataclass(frozen=True, slots=True)
class Injection:
    """What to add. image: of the plugin. name: of the SpeculativeModel; None: that of each object."""

    image: str
    name: str | None = None
    container: str | None = None


@dataclass(frozen=True, slots=True)
class Injected:
    """One object of the text. changes: what was added; empty where no pod of it runs vLLM."""

    what: str
    name: str
    manifest: Json
    changes: tuple[str, ...] = ()


def inject(content: str, wanted: Injection) -> Iterator[Injected]:
    """Each object of a YAML or JSON text, its vLLM pods with the plugin. The text is not changed.

    Objects as the API server returns them lose what only the server sets.

    Raises:
        ImportRefused: the text cannot be read, or an engine cannot be tuned; the message says why.
    """
    for document in documents(content):
        yield _injected(_as_written(copy.deepcopy(document)), wanted)


def _as_written(document: Json) -> Json:
    """The object without status, and without metadata of the API server."""
    metadata = document.get("metadata")
    if "status" not in document or not isinstance(metadata, dict):
        return document
    kept: Json = {key: value for key, value in metadata.items() if key not in _OF_THE_SERVER}
    annotations = kept.get("annotations")
    if isinstance(annotations, dict):
        kept["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": kept}


def _injected(document: Json, wanted: Injection) -> Injected:
    own = text(as_object(document.get("metadata")).get("name")) or "model"
    name, what = wanted.name or own, f"{text(document.get('kind')) or 'object'} {own}"
    changes: list[str] = []
    for holder, field, place in _pod_specs(document, ""):
        pod = as_object(holder[field])
        try:
            holder[field] = _pod(pod, Workload(what, own, pod), name, wanted, changes, place)
        except NoEngine:
            continue
        except (ImportRefused, ValueError) as refused:
            raise ImportRefused(f"{what}, {place}: {refused}") from refused
        _annotate(holder, field, name, changes)
    return Injected(what, name, document, tuple(dict.fromkeys(changes)))


def _pod_specs(value: JsonValue, place: str) -> Iterator[tuple[Json, str, str]]:
    """Every pod spec as the object and the field that hold it, with its path: whatever has containers."""
    if not isinstance(value, dict):
        return
    for field, part in list(value.items()):
        inside = f"{place}.{field}" if place else field
        if isinstance(part, dict) and as_objects(part.get("containers")):
            yield value, field, inside
        elif isinstance(part, dict):
            yield from _pod_specs(part, inside)


def _annotate(holder: Json, field: str, name: str, changes: list[str]) -> None:
    """Name the model on the pods, where the pod spec has metadata beside it."""
    if field != "spec":
        changes.append(f"no annotation, since .{field} has no metadata of its pods")
        return
    metadata = holder.setdefault("metadata", {})
    if isinstance(metadata, dict):
        metadata["annotations"] = {**as_object(metadata.get("annotations")), PLUGIN_ANNOTATION: name}
        changes.append(f"annotation {PLUGIN_ANNOTATION}: {name}")


def _pod(pod: Json, workload: Workload, name: str, wanted: Injection, changes: list[str], place: str) -> Json:
    container = engine_container(workload, wanted.container)
    engine, model = text(container.get("name")) or "", _model(workload, container, wanted)
    launch = engine_launch(_RUNTIME.settled(model.spec, None), Launch())
    planned = _RUNTIME.container(launch, served_name=name).environment
    if CANDIDATES_VARIABLE not in planned and TABLE not in (speculative_config(model.spec) or {}):
        raise ImportRefused(_one_k(model))
    own: Json = {
        **{key: planned[key] for key in _FROM_THE_LAUNCH if key in planned},
        PUBLIC_KEY_FILE_VARIABLE: f"{SCHEDULE_FOLDER}/{PUBLIC_KEY_FILE}",
        SELF_TEST_FILE_VARIABLE: f"{STATE_FOLDER}/self-test.json",
    }
    changes.append(f"{place}: init container and volume {wanted.image}, mounted in container {engine}")
    changed = _with_schedule(_with_variables(container, own, changes), model, changes)
    key: Json = {"name": schedule_config_map(name), "optional": True}
    changes.append(f"{place}: volume {KEY_VOLUME}, the key of SpeculativeModel {name} once it exists")
    mounts: list[Json] = [
        {"name": KEY_VOLUME, "mountPath": SCHEDULE_FOLDER, "readOnly": True},
        {"name": STATE_VOLUME, "mountPath": STATE_FOLDER},
    ]
    volumes: list[Json] = [
        {"name": KEY_VOLUME, "configMap": key},
        {"name": STATE_VOLUME, "emptyDir": {"sizeLimit": "16Mi"}},
    ]
    changed["volumeMounts"] = _put(changed.get("volumeMounts"), mounts)
    containers = [changed if one is container else one for one in as_objects(pod.get("containers"))]
    whole: Json = {**pod, "containers": [*containers], "volumes": _put(pod.get("volumes"), volumes)}
    return with_plugin(whole, container=engine, image=wanted.image)


def _put(entries: JsonValue, added: Sequence[Json]) -> list[JsonValue]:
    """The entries of a list by name: those of the same name in their place, the others behind them."""
    found = {str(one.get("name")): one for one in added}
    kept: list[JsonValue] = [found.pop(str(one.get("name")), one) for one in as_objects(entries)]
    return [*kept, *found.values()]


def _model(workload: Workload, container: Json, wanted: Injection) -> SpeculativeModel:
    """The engine as Outrider would launch it, which says how its K can change.

    Raises:
        ImportRefused: it drafts nothing, its release is unknown, or its K cannot change.
    """
    image = text(container.get("image"))
    if release_of(image) is None:
        raise ImportRefused(
            f"the image {image} names no release of vLLM, on which the ways to change K depend; name one by "
            f"its tag, such as v{DEFAULT_RELEASE}"
        )
    command = engine_command(
        words_of(container, "command"),
        words_of(container, "args"),
        values=values_of(container),
        declared=names_of(container),
        findings=Findings(),
    )
    if command.kind not in (None, RuntimeKind.VLLM) or reader_of_image(image).kind is not RuntimeKind.VLLM:
        raise ImportRefused(
            "Outrider adds its plugin to running pods of vLLM only; for another engine, create a "
            "SpeculativeModel with outrider import"
        )
    parsed = parse(command.words, FLAGS, Findings())
    if take_config(parsed.flags, Findings()) is None:
        raise ImportRefused(
            "the engine drafts nothing, so there is no K to change; add --speculative-config, or let "
            "outrider import choose a drafter"
        )
    named = "model" in parsed.flags or parsed.positional
    workload = workload if named else replace(workload, uri=_ELSEWHERE)
    imported = convert(workload, Options(container=wanted.container))
    try:
        model = SpeculativeModel.model_validate(imported.manifest)
    except ValidationError as error:
        raise ImportRefused(validation_message(error, imported.manifest)) from error
    unread = [each for each in imported.findings.of(Outcome.DROPPED) if each.what == f"--{SPECULATIVE_FLAG}"]
    if unread:
        raise ImportRefused(f"its K cannot change, because of --{SPECULATIVE_FLAG}: {unread[0].why}")
    why = _RUNTIME.unsupported_reason(model.spec, None)
    if model.spec.engine.image is None:
        oldest, newest = version_text(OLDEST_VERSION), version_text(NEWEST_VERSION)
        raise ImportRefused(f"Outrider serves vLLM {oldest} to {newest}, not {image}; take a newer image")
    if why is not None:
        raise ImportRefused(why)
    return model


def _one_k(model: SpeculativeModel) -> str:
    """Why K of an engine stays as its flags say, and what to do."""
    spec = model.spec
    if spec.parallelism.data > 1:
        return "its data-parallel ranks could use different K; launch it with one rank"
    return (
        f"vLLM {spec.engine.version} does not change K of method {spec.speculation.method} in this engine; "
        "docs/reference/methods.md lists the methods with which it does"
    )


def _with_variables(container: Json, own: Json, changes: list[str]) -> Json:
    """The container with Outrider's variables; what it loads as plugins stays behind them."""
    entries = as_objects(container.get("env"))
    theirs = next((one for one in entries if one.get("name") == PLUGINS_VARIABLE), {})
    if "valueFrom" in theirs:
        raise ImportRefused(f"env {PLUGINS_VARIABLE} has no plain value; write its plugins as a value")
    plugins = [*str(own[PLUGINS_VARIABLE]).split(","), *str(theirs.get("value", "")).split(",")]
    values: Json = {**own, PLUGINS_VARIABLE: ",".join(dict.fromkeys(one for one in plugins if one))}
    uid: Json = {
        "name": POD_UID_VARIABLE,
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}},
    }
    added: list[Json] = [*({"name": name, "value": value} for name, value in values.items()), uid]
    changes.extend(f"env {one['name']}" for one in added)
    changes.append("env PYTHONPATH begins with the folder of the plugin")
    return {**container, "env": _put(container.get("env"), added)}


def _with_schedule(container: Json, model: SpeculativeModel, changes: list[str]) -> Json:
    """The container with every candidate K in vLLM's flags, where vLLM reads them there.

    Raises:
        ImportRefused: the flag is where it cannot be changed.
    """
    planned = speculative_config(model.spec) or {}
    if TABLE not in planned:
        return container
    for field in ("args", "command"):
        words = words_of(container, field)
        changed = _with_table(words, planned[TABLE])
        if changed is not None:
            if changed != words:
                changes.append(f"{field}: --{SPECULATIVE_FLAG} has {TABLE}: {json.dumps(planned[TABLE])}")
            return {**container, field: list(changed)}
    written = _one_by_one([*words_of(container, "command"), *words_of(container, "args")])
    if written:
        raise ImportRefused(
            f"Outrider adds the K that may be used to --{SPECULATIVE_FLAG}, and the engine has "
            f"{' and '.join(written)}; write them as one --{SPECULATIVE_FLAG}"
        )
    raise ImportRefused(
        f"--{SPECULATIVE_FLAG} is not a word of its own with JSON, so Outrider cannot add the K that may be "
        f'used; add "{TABLE}": {json.dumps(planned[TABLE])} to it'
    )


def _with_table(words: Sequence[str], table: object) -> list[str] | None:
    """The words with the table in the speculative configuration; None without that. Its own table stays."""
    found = list(words)
    for index, word in enumerate(found):
        in_script = next(
            (one for one in _IN_SCRIPT.finditer(word) if _meant(one[1]) == SPECULATIVE_FLAG), None
        )
        flag, equals, value = word.partition("=")
        if in_script is not None:
            changed = _configured(in_script[2], table)
            if changed is not None:
                found[index] = f"{word[: in_script.start(2)]}{changed}{word[in_script.end(2) :]}"
                return found
        elif _meant(flag) == SPECULATIVE_FLAG:
            place = index if equals else index + 1
            changed = _configured(value if equals else "".join(found[place : place + 1]), table)
            if changed is not None:
                found[place] = f"{flag}={changed}" if equals else changed
                return found
    named = (_meant(word.partition("=")[0]).partition(".") for word in words)
    keys = {key for flag, dot, key in named if dot and flag == SPECULATIVE_FLAG}
    if not keys:
        return None
    compact = json.dumps(table, separators=(",", ":"))
    return found if TABLE in keys else [*found, f"--{SPECULATIVE_FLAG}.{TABLE}={compact}"]


_IN_SCRIPT = re.compile(r"(?<!\S)(--?[A-Za-z][A-Za-z_-]*)(?:=|\s+)'(\{[^']*\})'")
"""A flag with JSON in a shell script. JSON in single quotes stays one word, whatever is added to it."""
_FLAG_OF_A_WORD = re.compile(r"(?<!\S)--[a-z][a-z_-]*")


def _meant(word: str) -> str:
    """The flag that a word means, in full and without dashes in front; empty for other words."""
    return completed(word.lstrip("-"), FLAGS) if word.startswith("-") else ""


def _one_by_one(words: Sequence[str]) -> list[str]:
    """The flags that say a part of the speculative configuration each."""
    given = [flag for word in words for flag in _FLAG_OF_A_WORD.findall(word)]
    return list(dict.fromkeys(flag for flag in given if _meant(flag) in ONE_BY_ONE))


def _configured(given: str, table: object) -> str | None:
    """The configuration with the table, as it is written where it has one; None for other text."""
    try:
        config = json.loads(given)
    except (ValueError, RecursionError):
        return None
    if not isinstance(config, dict):
        return None
    return given if TABLE in config else json.dumps({**config, TABLE: table}, separators=(",", ":"))
