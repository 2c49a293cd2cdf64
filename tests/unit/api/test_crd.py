from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from outrider.api.crd import FILE_NAME, custom_resource_definition, render

CRD_FILE = Path(__file__).parents[3] / "crds" / FILE_NAME
FIELDS_OF_THE_DESIGN = {
    "model": {"uri", "revision", "servedName", "servedAliases", "maxLength", "secretRef"},
    "speculation": {
        "method",
        "drafter",
        "numSpeculativeTokens",
        "candidates",
        "schedule",
        "verification",
        "config",
        "requestLimits",
        "tuning",
    },
    "target": {"selector", "workload", "port", "requestLimits", "tuning"},
    "engine": {
        "runtime",
        "version",
        "image",
        "plugin",
        "modelRunner",
        "args",
        "loraAdapters",
        "kvTransferPeer",
        "port",
    },
    "parallelism": {"tensor", "pipeline", "data", "expert", "nodes"},
    "resources": {"limits", "requests", "claims"},
    "replicas": set(),
    "rollout": {
        "maxSurge",
        "maxUnavailable",
        "progressDeadline",
        "onFailure",
        "surgeTimeout",
        "disruptionBudget",
    },
    "cache": {"claim", "size", "storageClass", "accessMode", "s3"},
    "inferencePool": {"endpointPicker", "memberOf", "port", "canary"},
    "podTemplate": {"metadata", "spec"},
}
TUNING_FIELDS = {
    "mode",
    "actuation",
    "objective",
    "slo",
    "k0",
    "structuralOff",
    "canary",
    "relaunchInterval",
    "sweep",
}

Schema = Mapping[str, Any]


def test_the_file_is_up_to_date() -> None:
    hint = "stale: run `python -m outrider.api.crd --write crds/`"
    assert CRD_FILE.read_text() == render(), hint


def test_has_every_field_of_the_design() -> None:
    properties = _child(_schema(), "properties", "spec", "properties")
    found = {name: set(_child(properties, name).get("properties") or ()) for name in properties}
    assert found == FIELDS_OF_THE_DESIGN
    assert set(_child(properties, "speculation", "properties", "tuning", "properties")) == TUNING_FIELDS


def test_every_field_has_a_description() -> None:
    silent = [path for path, schema in _nodes(_schema(), "") if not schema.get("description")]
    assert [path for path in silent if not path.endswith(("[]", "{}"))] == _ROOT_FIELDS


def test_is_structural() -> None:
    for path, schema in _nodes(_schema(), ""):
        assert not {"$ref", "title", "oneOf", "allOf", "const"} & schema.keys(), path
        untyped = "x-kubernetes-int-or-string" in schema or "x-kubernetes-preserve-unknown-fields" in schema
        assert "type" in schema or untyped, path
        assert schema.get("additionalProperties") is not False, path


def test_every_list_map_and_text_that_a_rule_can_reach_is_bounded() -> None:
    free = {".podTemplate.spec", ".engine.args"}
    for path, schema in _nodes(_child(_schema(), "properties", "spec"), ""):
        if path in free or any(path.startswith(prefix) for prefix in free):
            continue
        if schema.get("type") == "array":
            assert "maxItems" in schema, path
        if "additionalProperties" in schema:
            assert "maxProperties" in schema, path


def test_conditions_merge_by_type() -> None:
    conditions = _child(_schema(), "properties", "status", "properties", "conditions")
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_printer_columns_are_those_of_the_design() -> None:
    columns = [
        column["name"] for column in _version()["additionalPrinterColumns"] if "priority" not in column
    ]
    assert columns == ["Ready", "Reason", "Schedule", "Acceptance", "Speedup", "Replicas", "Age"]


def test_status_gives_the_columns_of_replicas_and_reason() -> None:
    columns = {column["name"]: column["jsonPath"] for column in _version()["additionalPrinterColumns"]}
    status = _child(_schema(), "properties", "status", "properties")
    assert (columns["Replicas"], columns["Reason"]) == (".status.serving", ".status.reason")
    assert {"serving", "reason"} <= status.keys()


def test_has_the_subresources_status_and_scale() -> None:
    assert set(_child(_version(), "subresources")) == {"status", "scale"}


def test_the_file_is_one_plain_document() -> None:
    assert yaml.safe_load(CRD_FILE.read_text()) == custom_resource_definition()
    assert "&id" not in CRD_FILE.read_text()


_ROOT_FIELDS = [".apiVersion", ".kind", ".metadata"]


def _version() -> Schema:
    versions = _child(custom_resource_definition(), "spec")["versions"]
    assert isinstance(versions, list)
    return versions[0]  # type: ignore[no-any-return]


def _schema() -> Schema:
    return _child(_version(), "schema", "openAPIV3Schema")


def _child(schema: Schema, *names: str) -> Schema:
    for name in names:
        value = schema[name]
        assert isinstance(value, Mapping)
        schema = value
    return schema


def _nodes(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    yield path, schema
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, child in properties.items():
            yield from _nodes(child, f"{path}.{name}")
    for key, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        child = schema.get(key)
        if isinstance(child, Mapping):
            yield from _nodes(child, path + suffix)
