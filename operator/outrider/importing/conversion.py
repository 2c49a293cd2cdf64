"""From a workload to a SpeculativeModel, with what it could not carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml
from pydantic import JsonValue, ValidationError

from outrider.api.crd import PlainDumper
from outrider.api.engines import RuntimeKind
from outrider.api.json_object import Json
from outrider.api.mistakes import validation_message
from outrider.api.owned_flags import pools
from outrider.api.quantity import MAX_NAME_LENGTH
from outrider.api.resource import API_VERSION, KIND, MAX_GROUP_NAME_LENGTH, SpeculativeModel
from outrider.importing.arguments import engine_args, parallelism, port
from outrider.importing.command import EngineCommand, engine_command
from outrider.importing.engines import READERS, EngineReader, reader_of_image
from outrider.importing.environment import Environment, environment, names_of, values_of
from outrider.importing.findings import Findings, ImportRefused, holds_secret
from outrider.importing.flags import Flags, parse
from outrider.importing.images import Image, image_of
from outrider.importing.model import model_fields, own_cache, without_lost_folders
from outrider.importing.pod import Taken, pod_template, resources
from outrider.importing.speculation import Target, for_batches, speculation
from outrider.importing.variables import drop_without_value, without_value
from outrider.importing.weights import Mount, Place, mounts, place_of
from outrider.importing.workload import Workload, an_object, engine_container, text, whole, words_of
from outrider.plan import ControlKeys, PlanSettings, plan
from outrider.runtimes import RUNTIMES
from outrider.sizing.manifest import object_name

_SUFFIX = "-tuned"
"""Outrider's Deployment and Service must not have the names of those of the source."""
_KEYS = ControlKeys(private="made by the operator", public="made by the operator")


@dataclass(frozen=True, slots=True)
class Options:
    """What a user says beside the source."""

    name: str | None = None  # default: the source's, with ``-tuned`` for an object of a cluster
    namespace: str | None = None
    container: str | None = None  # of the engine
    keep_image: bool = False  # start the image without the plugin; K then changes by rolling restarts


@dataclass(frozen=True, slots=True)
class Imported:
    """One SpeculativeModel, and how it came about."""

    source: str
    manifest: Json
    comments: Mapping[str, Sequence[str]]  # field of the spec -> the comments above it
    findings: Findings

    @property
    def name(self) -> str:
        """The SpeculativeModel's."""
        return str(an_object(self.manifest.get("metadata"))["name"])


def convert(workload: Workload, options: Options) -> Imported:
    """The SpeculativeModel of a workload.

    Raises:
        ImportRefused: none can be made; the message says why and what to do.
    """
    container = engine_container(workload, options.container)
    command = engine_command(
        words_of(container, "command"),
        words_of(container, "args"),
        values=values_of(container),
        declared=names_of(container),
        findings=workload.findings,
        holder=workload.holder,
    )
    reader = reader_of_image(text(container.get("image"))) if command.kind is None else READERS[command.kind]
    parsed = parse(command.words, RUNTIMES[reader.kind].flags, workload.findings)
    flags = reader.common(parsed.flags)
    drop_without_value(flags, workload.findings)
    model = _model(workload, flags, parsed.positional, reader.kind)
    found = list(mounts(workload.pod, container))
    place = place_of(workload.uri or model, found)
    source = _Source(reader, command, flags, _Weights(model, place, tuple(found)))
    spec, comments = _spec(workload, container, source, options)
    manifest: Json = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": _metadata(workload, options, place.uri),
        "spec": spec,
    }
    _require_admitted(manifest, workload.findings)
    return Imported(f"{workload.kind} {workload.name}".strip(), manifest, comments, workload.findings)


@dataclass(frozen=True, slots=True)
class _Weights:
    """The model as vLLM's flags name it, where it lies, and the mounts of the container."""

    named: str
    place: Place
    mounts: tuple[Mount, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """The engine of the source, its command, and what its flags say."""

    reader: EngineReader
    command: EngineCommand
    flags: Flags
    weights: _Weights


def _model(workload: Workload, flags: Flags, positional: Sequence[str], kind: RuntimeKind) -> str:
    """What the flag or the first word of ``vllm serve`` says; the source's own place where it has one."""
    given = flags.pop("model", None)
    words = list(positional)
    if given is None and words:
        given = words.pop(0)
    for word in words:
        unknown = without_value(word)
        workload.findings.dropped(
            f"word {word}" if not holds_secret(word) else "a word",
            f"it belongs to no flag; {kind} would not take it"
            if unknown is None
            else f"{unknown}; write its flags into spec.engine.args",
        )
    named = text(given) or workload.uri
    if named is None:
        raise ImportRefused("the source names no model; add --model, or pass vllm serve MODEL after --")
    return named


def _spec(
    workload: Workload,
    container: Json,
    source: _Source,
    options: Options,
) -> tuple[Json, dict[str, Sequence[str]]]:
    findings, flags, reader, weights = workload.findings, source.flags, source.reader, source.weights
    place, found = weights.place, list(weights.mounts)
    spreads = parallelism(flags, workload.nodes, findings)
    generates = not pools(_scalars(flags), reader.kind)
    target = Target(place.uri, spreads.get("pipeline", 1), spreads.get("data", 1), not generates, reader.kind)
    speculating = speculation(reader.takes_config(flags, findings), target, found, findings)
    model = model_fields(place, flags, asked_for=weights.named, workload=workload)
    variables = values_of(container)
    cache, replaced = own_cache(place, workload, found, flags, variables)
    from_hub = "hf://" in f"{place.uri} {speculating.wanted.get('drafter')}"
    runtime = RUNTIMES[reader.kind]
    env = environment(
        container, source.command.environment, from_hub=from_hub, runtime=runtime, findings=findings
    )
    if env.token is not None:
        model["secretRef"] = env.token
    image = image_of(text(container.get("image")), reader, plain=options.keep_image, findings=findings)
    engine = _engine(image, env, flags, workload, reader)
    asked, has_claims = resources(container, workload.pod, findings)
    own = [mount for mount in (place.mount, speculating.mount) if mount is not None]
    carried = without_lost_folders(env.carried, found, replaced, findings)
    taken = Taken((*own, *replaced), carried, has_claims, list(_texts({**flags, "env": carried})))
    template = _without_secret_texts(pod_template(workload, container, taken), "spec.podTemplate", findings)
    wanted = for_batches(speculating.wanted, _largest_batch(an_object(engine.get("args"))))
    if wanted != speculating.wanted:
        findings.check(
            "spec.speculation.candidates", "each needs a batch size of its own, and the flags leave few"
        )
    parts: Json = {
        "model": model,
        "speculation": _by_restarts(wanted) if options.keep_image and image.kept is not None else wanted,
        "engine": engine,
        "parallelism": dict(spreads),
        "resources": asked,
        "replicas": workload.replicas,
        "rollout": {**workload.rollout, **({"onFailure": "Hold"} if workload.nodes > 1 else {})},
        "cache": cache,
        "podTemplate": template,
    }
    if not asked and workload.in_cluster:
        findings.check(
            "spec.resources",
            "the source has none, and Outrider asks for one GPU per rank; set it to ask for others",
        )
    return {name: part for name, part in parts.items() if part not in ({}, None)}, {
        "speculation": speculating.comments
    }


def _engine(image: Image, env: Environment, flags: Flags, workload: Workload, reader: EngineReader) -> Json:
    own_port = port(flags, workload.findings)
    fields: Json = {
        "runtime": None if reader.kind is RuntimeKind.VLLM else str(reader.kind),
        "version": image.version,
        "image": image.kept,
        "plugin": None if image.plugin is None else image.plugin.value,
        "modelRunner": env.runner,
        "port": own_port,
        "args": engine_args(flags, reader.kind, image.version, workload.findings) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _by_restarts(wanted: Json) -> Json:
    """With the way to change K that an engine without the plugin has."""
    if wanted["method"] == "none":
        return wanted
    tuning = {**an_object(wanted.get("tuning")), "actuation": "Rollout"}
    return {**wanted, "tuning": tuning}


def _metadata(workload: Workload, options: Options, uri: str) -> Json:
    longest = MAX_GROUP_NAME_LENGTH if workload.nodes > 1 else MAX_NAME_LENGTH
    suffix = _SUFFIX if workload.in_cluster else ""
    name = (
        options.name or object_name(workload.name or uri.rsplit("/", 1)[-1], longest - len(suffix)) + suffix
    )
    namespace = options.namespace or workload.namespace
    return {"name": name, **({} if namespace is None else {"namespace": namespace})}


def _require_admitted(manifest: Json, findings: Findings) -> None:
    """Refuse what admission refuses, and note what the operator would not carry out.

    Raises:
        ImportRefused: the spec breaks a rule that no part of it can be left out for.
    """
    try:
        model = SpeculativeModel.model_validate(manifest)
    except ValidationError as error:
        raise ImportRefused(
            f"its SpeculativeModel would be refused: {validation_message(error, manifest)}"
        ) from error
    for _, message in plan(model, settings=PlanSettings(), keys=_KEYS).problems:
        findings.check("outrider render", f"it refuses this SpeculativeModel as it stands: {message}")


def _largest_batch(args: Json) -> int | None:
    """Requests that one step takes at most; None where the flags do not bound them."""
    bounds = [whole(args.get(flag)) for flag in ("max-num-seqs", "max-num-batched-tokens")]
    return min((bound for bound in bounds if bound is not None), default=None)


def _texts(value: JsonValue) -> Iterator[str]:
    """Every text in a value, in which a path may stand."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _without_secret_texts(value: Json, place: str, findings: Findings) -> Json:
    """Without any text that looks like a token, wherever it stands."""

    def clean(part: JsonValue, where: str) -> JsonValue:
        if isinstance(part, dict):
            named = [(key, each, f"{where}.{key}") for key, each in part.items()]
            return {key: clean(each, inside) for key, each, inside in named if kept(each, inside)}
        if isinstance(part, list):
            listed = [(each, f"{where}[{index}]") for index, each in enumerate(part)]
            return [clean(each, inside) for each, inside in listed if kept(each, inside)]
        return part

    def kept(part: JsonValue, where: str) -> bool:
        if isinstance(part, str) and holds_secret(part):
            findings.dropped(
                where, "it looks secret and stands in the source in plain text; put it into a Secret"
            )
            return False
        return True

    return an_object(clean(value, place))


def _scalars(flags: Flags) -> dict[str, bool | int | float | str]:
    return {
        name: value if isinstance(value, bool | int | float | str) else str(value)
        for name, value in flags.items()
    }


def text_of(imported: Imported) -> str:
    """One YAML document."""
    manifest = imported.manifest
    head = {key: value for key, value in manifest.items() if key != "spec"}
    lines = [_dumped(head), "spec:\n"]
    spec = manifest["spec"]
    assert isinstance(spec, dict)
    for name, part in spec.items():
        lines += [f"  # {comment}\n" for comment in imported.comments.get(name, ())]
        lines.append("".join(f"  {line}\n" for line in _dumped({name: part}).splitlines()))
    return "".join(lines)


def _dumped(part: Json) -> str:
    return yaml.dump(part, Dumper=PlainDumper, sort_keys=False, width=10_000, allow_unicode=True)
