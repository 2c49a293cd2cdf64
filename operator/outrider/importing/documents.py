"""The text of a file as objects: bounded, without templates, lists taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from outrider.api.json_object import Json
from outrider.foreign import InputRefused, require_room, require_size
from outrider.foreign.readers import IMPORTED
from outrider.importing.findings import ImportRefused
from outrider.importing.kubernetes_yaml import KeyIsNoText, KubernetesLoader
from outrider.importing.workload import objects, text

_TEMPLATE = re.compile(r"\{\{[^}\n]*(\.(Values|Release|Chart|Capabilities)\b|\b(include|template) \")")
"""What only the template of a chart has. Flags may hold a chat template with braces, too."""


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
        if isinstance(error, KeyIsNoText):
            raise ImportRefused(f"it has {error}") from error
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
    for document in yaml.load_all(content, KubernetesLoader):
        # An alias is one object in many places, so only a count of all places bounds it.
        require_room(IMPORTED, document)
        yield from objects_in(document)


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
