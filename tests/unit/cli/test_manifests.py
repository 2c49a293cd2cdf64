"""Manifests are read as the API server reads them: names, types, nulls and dates."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from outrider.api.resource import SpeculativeModel
from outrider.cli.common.manifests import checked, raw_models
from outrider.cli.common.output import CommandError
from outrider.cli.main import app
from tests.unit.api.admission_cases import base_manifest, merge_patch


def read(text: str) -> SpeculativeModel:
    (raw,) = raw_models(text, "model.yaml")
    return checked(raw, "model.yaml")


def rendered(text: str) -> Result:
    return CliRunner().invoke(app, ["render", "-"], input=text)


def patched(**spec: Any) -> str:
    return yaml.safe_dump(merge_patch(base_manifest(), {"spec": spec}), sort_keys=False)


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ({"speculation": {"num_speculative_tokens": 5}}, "numSpeculativeTokens"),
        ({"speculation": {"tuning": {"structural_off": "Allow"}}}, "structuralOff"),
        ({"model": {"max_length": 8192}}, "maxLength"),
        ({"model": {"served_name": "q"}}, "servedName"),
        ({"pod_template": {"spec": {}}}, "podTemplate"),
    ],
)
def test_a_name_of_python_is_no_field_and_the_answer_has_the_right_name(spec: Any, meant: str) -> None:
    result = rendered(patched(**spec))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"there is no such field; did you mean {meant}?" in result.stderr


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"replicas": "2"}, "spec.replicas: '2' is a text; write it without quotes: replicas: 2"),
        ({"replicas": True}, "spec.replicas: true is not a whole number"),
        ({"parallelism": {"expert": 1}}, "spec.parallelism.expert: 1 is neither true nor false"),
        ({"parallelism": {"expert": "true"}}, "write it without quotes: expert: true"),
        ({"speculation": {"candidates": ["0", 5]}}, "'0' is a text; write it without quotes: 0"),
        ({"rollout": {"maxSurge": True}}, "spec.rollout.maxSurge: true is not a whole number"),
    ],
)
def test_a_value_of_another_type_is_refused_as_the_api_server_refuses_it(spec: Any, told: str) -> None:
    result = rendered(patched(**spec))
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert told in line
    assert "put the value in quotes" not in line


def test_a_manifest_without_its_version_of_the_api_is_refused() -> None:
    result = rendered(yaml.safe_dump(merge_patch(base_manifest(), {"apiVersion": None})))
    assert result.exit_code == 2
    assert "apiVersion: is required; write apiVersion: outrider.dev/v1alpha1" in result.stderr


@pytest.mark.parametrize(
    "empty",
    [
        {"engine": None},
        {"engine": {"args": None}},
        {"replicas": None, "rollout": None, "resources": None},
        {"podTemplate": None},
    ],
)
def test_an_empty_block_is_as_if_it_were_left_out(empty: Any) -> None:
    manifest: Any = base_manifest()
    manifest["spec"] |= empty
    assert read(yaml.safe_dump(manifest)).spec == read(yaml.safe_dump(base_manifest())).spec


def test_an_empty_block_at_any_depth_is_as_if_it_were_left_out() -> None:
    manifest: Any = base_manifest()
    rows = [{"maxBatchSize": 8, "numSpeculativeTokens": 5}, {"maxBatchSize": None, "numSpeculativeTokens": 0}]
    manifest["spec"]["speculation"] |= {"tuning": None, "schedule": rows}
    manifest["spec"]["podTemplate"] = {"metadata": None, "spec": None}
    manifest["metadata"] |= {"labels": None}
    assert read(yaml.safe_dump(manifest)).metadata.labels == {}


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ({"colour": None}, "spec.colour: there is no such field"),
        ({"engine": {"args": {"max-num-seqs": None}}}, "null says nothing"),
        ({"speculation": {"method": "ngram", "numSpeculativeTokens": 5, "candidates": [None]}}, "candidates"),
    ],
)
def test_a_null_that_the_api_server_keeps_is_refused(place: Any, told: str) -> None:
    manifest: Any = base_manifest()
    manifest["spec"] |= place
    assert told in rendered(yaml.safe_dump(manifest)).stderr


def test_a_whole_number_with_a_point_is_a_whole_number() -> None:
    text = patched(replicas=2.0, resources={"limits": {"cpu": 3.0}})
    for model in (read(text), SpeculativeModel.model_validate(yaml.safe_load(text))):
        assert model.spec.replicas == 2
        assert model.spec.resources is not None
        assert str(model.spec.resources.limits["cpu"]) == "3"


@pytest.mark.parametrize("written", ["2024-01-01", "12:30"])
def test_a_date_or_a_time_without_quotes_is_a_text(written: str) -> None:
    text = patched(speculation={"drafter": {"revision": "DATE"}}).replace("DATE", written)
    drafter = read(text).spec.speculation.drafter
    assert drafter is not None
    assert drafter.revision == written


def test_the_status_of_a_stored_object_does_not_decide() -> None:
    status = {"replicas": 1, "speculation": {"state": "Active", "acceptanceRate": "0.71"}}
    model = read(yaml.safe_dump(base_manifest() | {"status": status}))
    assert model.status.replicas == 1


@pytest.mark.parametrize("depth", [40, 250])
def test_a_part_that_is_too_large_is_named(depth: int) -> None:
    manifest: Any = base_manifest()
    deep: Any = {}
    for _ in range(depth):
        deep = {"a": deep}
    manifest["spec"]["podTemplate"] = {"spec": deep}
    with pytest.raises(CommandError) as refusal:
        checked(manifest, "model.yaml")
    assert "spec.podTemplate.spec: nested deeper than 32 levels" in str(refusal.value)


DURATIONS = [
    ({"rollout": {"progressDeadline": 60}}, ["60s"]),
    ({"rollout": {"surgeTimeout": 300}}, ["300s"]),
    ({"speculation": {"tuning": {"relaunchInterval": 3600}}}, ["3600s"]),
    ({"speculation": {"tuning": {"slo": {"interTokenLatency": {"limit": 50}}}}}, ["50ms", "50s"]),
    ({"speculation": {"tuning": {"slo": {"timeToFirstToken": {"limit": 2000.5}}}}}, ["2000.5ms"]),
]


@pytest.mark.parametrize(("spec", "meant"), DURATIONS)
def test_a_duration_as_a_number_is_answered_with_its_units_which_are_accepted(
    spec: Any, meant: list[str]
) -> None:
    answer = rendered(patched(**spec)).stderr
    assert answer.rstrip().endswith(f"is a number without a unit; write {' or '.join(meant)}")
    for text in meant:
        assert rendered(patched(**_with(spec, text))).exit_code == 0


def _with(spec: Any, text: str) -> Any:
    return {key: _with(part, text) if isinstance(part, dict) else text for key, part in spec.items()}


def test_no_duration_is_suggested_that_would_be_refused() -> None:
    answer = rendered(patched(rollout={"progressDeadline": 5})).stderr
    assert "5 is a number without a unit; write a duration from 10s to 8760h" in answer


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"model": {"uri": 5}}, "'5' has no scheme that Outrider knows"),
        ({"engine": {"version": 1}}, 'write version: "1.0.0"'),
        ({"model": {"servedName": 5}}, '5 is a number; put it in quotes: servedName: "5"'),
    ],
)
def test_quotes_are_suggested_only_where_they_help(spec: Any, told: str) -> None:
    assert told in rendered(patched(**spec)).stderr
