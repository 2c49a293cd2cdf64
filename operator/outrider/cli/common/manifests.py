"""SpeculativeModels out of the text of a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import yaml
from pydantic import JsonValue, ValidationError

from outrider.api.as_stored import as_stored
from outrider.api.mistakes import mistakes, nearest
from outrider.api.resource import API_VERSION, KIND, SpeculativeModel, within_limits
from outrider.api.text import shortened
from outrider.cli.common.output import CommandError
from outrider.importing.documents import objects_in
from outrider.importing.kubernetes_yaml import KubernetesLoader


class _Loader(KubernetesLoader):
    """Refuses a key that is there twice, as the API server does; plain YAML keeps the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen = set[str]()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if name != "<<" and name in seen:
                place = key.start_mark
                raise yaml.YAMLError(f"line {place.line + 1} has the key {name} again; keep one of them")
            seen.add(name)
        return super().construct_mapping(node, deep)


def raw_models(text: str, source: str) -> list[Mapping[str, JsonValue]]:
    """Every SpeculativeModel of a text as the API server stores it, unchecked, and at least one."""
    try:
        documents = list(yaml.load_all(text, _Loader))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise CommandError(_not_yaml(text, source, error)) from error
    objects: list[Mapping[str, JsonValue]] = [one for document in documents for one in objects_in(document)]
    found = [as_stored(one) for one in objects if one.get("kind") == KIND]
    if not found:
        raise CommandError(_no_model(objects, source))
    return found


def _not_yaml(text: str, source: str, error: Exception) -> str:
    if "{{" in text:
        return f"{source} is a template and not YAML; render it first, such as by `helm template`"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{source} is not YAML: line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return f"{source} is not YAML: {' '.join(str(error).split())}"


def _no_model(objects: Sequence[Mapping[str, JsonValue]], source: str) -> str:
    kinds = list(dict.fromkeys(shortened(str(one.get("kind")), 60) for one in objects if one.get("kind")))
    if not kinds:
        return f"{source} holds no {KIND}: it has no object with kind: {KIND}; name a file that does"
    near = next((kind for kind in kinds if nearest(kind, [KIND]) is not None), None)
    if near is not None:
        return f"{source} holds no {KIND}: kind is '{near}'; write kind: {KIND}"
    return f"{source} holds no {KIND}, only {', '.join(kinds)}; name a file that does"


def checked(raw: Mapping[str, JsonValue], source: str) -> SpeculativeModel:
    """The model, checked as at admission."""
    # The model has a default for it, and the API server has none.
    missing = () if "apiVersion" in raw else (f"apiVersion: is required; write apiVersion: {API_VERSION}",)
    try:
        model = _as_written(raw)
    except ValidationError as error:
        raise CommandError(*(f"{source}: {line}" for line in (*missing, *mistakes(error, raw)))) from error
    if missing:
        raise CommandError(*(f"{source}: {line}" for line in missing))
    return model


def _as_written(raw: Mapping[str, JsonValue]) -> SpeculativeModel:
    """Read names and types as the API server does; the operator also reads Python's names and quoted numbers.

    Raises:
        pydantic.ValidationError: admission refuses the object.
    """
    try:
        within_limits(raw.get("spec"))
        text = json.dumps({name: part for name, part in raw.items() if name != "status"})
    except (ValueError, TypeError, RecursionError):
        return SpeculativeModel.model_validate(raw)  # It names the part that is too large, or no JSON.
    model = SpeculativeModel.model_validate_json(text, strict=True, by_alias=True, by_name=False)
    # The operator writes the status, with decimals as texts.
    return SpeculativeModel.model_validate(raw) if "status" in raw else model


def all_checked(raws: Sequence[Mapping[str, JsonValue]], source: str) -> list[SpeculativeModel]:
    """The models, checked as at admission."""
    found, refused = list[SpeculativeModel](), list[str]()
    for raw in raws:
        try:
            found.append(checked(raw, source if len(raws) == 1 else f"{source}, {_name(raw)}"))
        except CommandError as error:
            refused += error.lines
    if refused:
        raise CommandError(*refused)
    return found


def _name(raw: Mapping[str, JsonValue]) -> str:
    metadata = raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return shortened(str(name), 60) if name is not None else "a model without a name"
