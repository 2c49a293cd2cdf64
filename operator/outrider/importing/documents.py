"""The text of a file as objects: bounded, without templates, lists taken apart."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import yaml

from outrider.api.json_object import Json
from outrider.foreign import InputRefused, require_room, require_size
from outrider.foreign.readers import IMPORTED
from outrider.importing.findings import ImportRefused
from outrider.importing.workload import objects, text

_TEMPLATE = re.compile(r"\{\{[^}\n]*(\.(Values|Release|Chart|Capabilities)\b|\b(include|template) \")")
"""What only the template of a chart has. Flags may hold a chat template with braces, too."""

_TEXT = "tag:yaml.org,2002:str"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


def documents(content: str) -> list[Json]:
    """Every object of a YAML or JSON text.

    Raises:
        ImportRefused: too large, a Helm template, or no YAML.
    """
    try:
        require_size(IMPORTED, content)
        _require_few_marks(content)
        return _parsed(content)
    except InputRefused as error:
        raise ImportRefused(f"it is too large: {error}; import one object at a time") from error


def _require_few_marks(content: str) -> None:
    """Refuse a text of many values before it is parsed: a mark stands before each value but one."""
    marks = sum(content.count(mark) for mark in ",[{\n")
    if marks > IMPORTED.most_values:
        raise InputRefused(f"about {marks} values, at most {IMPORTED.most_values} are read")


def _parsed(content: str) -> list[Json]:
    try:
        found = list(_bounded(content))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        if isinstance(error, InputRefused | ImportRefused):
            raise
        if "{{" in content:
            raise ImportRefused(
                "it has template expressions in {{ }}; write what it becomes into a file, for a chart with "
                "helm template, and import that"
            ) from error
        raise ImportRefused(f"it is not YAML: {_problem(error)}") from error
    if not found:
        raise ImportRefused(
            "it holds no object; name the file of a Deployment, or of another workload that runs vLLM"
        )
    return found


def _problem(error: Exception) -> str:
    """The place and the problem, without the lines around it, which may hold a secret."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return type(error).__name__


def _bounded(content: str) -> Iterator[Json]:
    if _TEMPLATE.search(content):
        raise ValueError("a template")
    for document in yaml.load_all(content, _AsKubernetes):
        # An alias is one object in many places, so only a count of all places bounds it.
        require_room(IMPORTED, document)
        yield from objects_in(document)


class _AsKubernetes(yaml.SafeLoader):
    """Reads what Kubernetes reads: dates and times are texts, and so is each key; ``on: x`` has ``true``."""

    def construct_text(self, node: yaml.ScalarNode) -> object:
        """The text as it is written."""
        return self.construct_scalar(node)

    def construct_number(self, node: yaml.ScalarNode) -> object:
        """A number; what is one in base 60 to PyYAML is a text to Kubernetes."""
        if ":" in node.value:
            return self.construct_scalar(node)
        return self.construct_yaml_int(node) if node.tag == _INT else self.construct_yaml_float(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        self.flatten_mapping(node)
        # Before the keys are compared, because 1 and true are one key to Python.
        node.value = [(self._as_text(key), value) for key, value in node.value]
        return super().construct_mapping(node, deep=deep)

    def _as_text(self, key: yaml.Node) -> yaml.Node:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _TEXT:
            return key
        text = _text_of_key(self.construct_object(key))
        if text is None:
            raise ImportRefused(
                f"it has a key that Kubernetes does not read as text, in line {key.start_mark.line + 1}; "
                "put the key into quotes"
            )
        return yaml.ScalarNode(_TEXT, text, key.start_mark, key.end_mark)


_AsKubernetes.add_constructor(_TIMESTAMP, _AsKubernetes.construct_text)
for _tag in (_INT, _FLOAT):
    _AsKubernetes.add_constructor(_tag, _AsKubernetes.construct_number)


def _text_of_key(value: object) -> str | None:
    """The text that sigs.k8s.io/yaml makes of a key; None where it refuses the key, or rounds it."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if math.isfinite(value) and float(short := f"{value:g}") == value:
            return short
    return None


def objects_in(document: object) -> Iterator[Json]:
    """The objects of a document; `kubectl get -o yaml` puts several into one List."""
    if not isinstance(document, dict):
        return
    if text(document.get("kind")) == "List" or (
        str(document.get("kind", "")).endswith("List") and "items" in document
    ):
        for item in objects(document.get("items")):
            yield from objects_in(item)
    else:
        yield document
