"""The CustomResourceDefinition, generated from the models.

``python -m outrider.api.crd --write crds/`` writes it; a test fails when the file is stale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml
from pydantic import BaseModel

from outrider.api.generated import write_or_print
from outrider.api.resource import GROUP, KIND, PLURAL, SHORT_NAMES, VERSION, SpeculativeModel
from outrider.api.spec import Spec
from outrider.api.status import Status

Schema = dict[str, object]
FILE_NAME = f"{GROUP}_{PLURAL}.yaml"

_DROPPED = {"title", "$defs", "propertyNames"}

PRINTER_COLUMNS: tuple[dict[str, object], ...] = (
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Reason", "type": "string", "jsonPath": ".status.reason"},
    {"name": "Schedule", "type": "string", "jsonPath": ".status.speculation.scheduleSummary"},
    {"name": "Acceptance", "type": "string", "jsonPath": ".status.speculation.acceptanceRate"},
    {"name": "Speedup", "type": "string", "jsonPath": ".status.speculation.speedup.summary"},
    {"name": "Replicas", "type": "string", "jsonPath": ".status.serving"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Method", "type": "string", "jsonPath": ".spec.speculation.method", "priority": 1},
    {"name": "Simulated", "type": "string", "jsonPath": ".status.speculation.simulated", "priority": 1},
)


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the OpenAPI v3 schema of ``model`` in the structural form that the API server requires.

    It has no references, titles, null alternatives or closed objects; the API server prunes instead.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    definitions: Mapping[str, Schema] = schema.get("$defs", {})
    return _structural(schema, definitions)


def _structural(schema: Mapping[str, object], definitions: Mapping[str, Schema]) -> Schema:
    schema = _without_null(_resolved(schema, definitions), definitions)
    result: Schema = {}
    for key, value in schema.items():
        if key in _DROPPED or (key == "additionalProperties" and value is False):
            continue
        if key == "default" and value is None:
            continue
        if key == "description":
            result[key] = " ".join(str(value).split())
        elif key == "const":
            result["enum"] = [value]
        elif key == "properties" and isinstance(value, Mapping):
            result[key] = {name: _structural(child, definitions) for name, child in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            result[key] = _structural(value, definitions)
        else:
            result[key] = value
    return _description_first(result)


def _resolved(schema: Mapping[str, object], definitions: Mapping[str, Schema]) -> Schema:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return dict(schema)
    own = {key: value for key, value in schema.items() if key != "$ref"}
    return _resolved(definitions[reference.rpartition("/")[2]], definitions) | own


def _without_null(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    options = schema.get("anyOf")
    if not isinstance(options, Sequence):
        return schema
    kept = [option for option in options if option != {"type": "null"}]
    if len(kept) != 1:
        return schema
    own = {key: value for key, value in schema.items() if key != "anyOf"}
    return _resolved(kept[0], definitions) | own


def _description_first(schema: Schema) -> Schema:
    if "description" not in schema:
        return schema
    return {"description": schema["description"]} | schema


def custom_resource_definition() -> Schema:
    """Return the whole CRD as a manifest."""
    root = structural_schema(SpeculativeModel)
    validations = root["x-kubernetes-validations"]
    version: Schema = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [dict(column) for column in PRINTER_COLUMNS],
        "schema": {
            "openAPIV3Schema": {
                "description": root["description"],
                "type": "object",
                "required": ["spec"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": structural_schema(Spec),
                    "status": structural_schema(Status),
                },
                "x-kubernetes-validations": validations,
            }
        },
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": list(SHORT_NAMES),
                "categories": ["llm"],
            },
            "versions": [version],
        },
    }


class PlainDumper(yaml.SafeDumper):
    """A YAML dumper without anchors, which make a text hard to read."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Write an object again in each of its places."""
        return True


def render() -> str:
    """Return the text of the file in ``crds/``."""
    body = yaml.dump(custom_resource_definition(), Dumper=PlainDumper, sort_keys=False, width=110)
    return f"# Generated by `python -m outrider.api.crd`; do not edit.\n{body}"


if __name__ == "__main__":
    write_or_print("outrider.api.crd", FILE_NAME, render)
