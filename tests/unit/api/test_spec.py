from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from outrider.api.quantity import Location, Scheme, duration_seconds, parse_uri
from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec
from outrider.api.tuning import TuningMode
from tests.unit.api.admission_cases import CASES, AdmissionCase, base_manifest


def a_spec(**speculation: object) -> Spec:
    return SpeculativeModel.model_validate(
        AdmissionCase("", {"spec": {"speculation": speculation}}).manifest
    ).spec


@pytest.mark.parametrize(
    ("ceiling", "lengths"),
    [(1, (0, 1)), (2, (0, 1, 2)), (3, (0, 1, 2, 3)), (5, (0, 1, 2, 3, 5)), (8, (0, 1, 2, 4, 8))],
)
def test_default_candidates_halve_the_ceiling(ceiling: int, lengths: tuple[int, ...]) -> None:
    assert a_spec(numSpeculativeTokens=ceiling).candidates() == lengths


def test_the_default_table_drafts_less_at_larger_batches() -> None:
    assert str(a_spec(numSpeculativeTokens=5).static_schedule()) == "8:3,32:1,*:0"


def test_the_default_table_uses_the_given_candidates() -> None:
    assert str(a_spec(numSpeculativeTokens=6, candidates=[0, 2, 6]).static_schedule()) == "8:2,*:0"


def test_without_speculation_there_is_no_draft_length() -> None:
    spec = a_spec(method="none", drafter=None, numSpeculativeTokens=None)
    assert (spec.candidates(), str(spec.static_schedule())) == ((0,), "*:0")
    assert spec.tuning_mode is TuningMode.OFF


def test_data_parallelism_keeps_one_draft_length() -> None:
    case = {"spec": {"parallelism": {"data": 2}, "speculation": {"tuning": {"mode": "Off"}}}}
    spec = SpeculativeModel.model_validate(AdmissionCase("", case).manifest).spec
    assert (spec.live, spec.candidates(), str(spec.static_schedule())) == (False, (5,), "*:5")


def test_the_static_table_yields_candidates_only() -> None:
    for case in CASES:
        if case.refused is None:
            spec = SpeculativeModel.model_validate(case.manifest).spec
            assert spec.static_schedule().values() <= set(spec.candidates()), case.name


def test_the_wire_form_is_read_back_unchanged() -> None:
    model = SpeculativeModel.model_validate(base_manifest())
    wire = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert SpeculativeModel.model_validate(wire) == model


@pytest.mark.parametrize(("text", "seconds"), [("30ms", 0.03), ("20m", 1200), ("1h30m", 5400), ("1.5s", 1.5)])
def test_durations_are_read_in_seconds(text: str, seconds: float) -> None:
    assert duration_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "20", "m", "1d", "-1s"])
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration_seconds(text)


@pytest.mark.parametrize("text", ["8761h", "9" * 31 + "h"])
def test_a_duration_that_no_clock_can_count_is_refused(text: str) -> None:
    case = AdmissionCase("", {"spec": {"rollout": {"progressDeadline": text}}})
    with pytest.raises(ValidationError, match="is too long; write at most 8760h"):
        SpeculativeModel.model_validate(case.manifest)


def an_overlay(levels: int) -> AdmissionCase:
    overlay: dict[str, object] = {"a": 1}
    for level in range(1, levels):
        overlay = {"a": [overlay]} if level % 2 else {"a": overlay}
    return AdmissionCase("", {"spec": {"podTemplate": {"spec": overlay}}})


def test_an_overlay_as_deep_as_a_pod_is_taken() -> None:
    SpeculativeModel.model_validate(an_overlay(levels=16).manifest)


@pytest.mark.parametrize("levels", [64, 900, 9_000])
def test_an_overlay_that_is_nested_without_end_is_refused_by_its_field(levels: int) -> None:
    deep = an_overlay(levels).manifest
    with pytest.raises(ValidationError, match=r"spec\.podTemplate\.spec: nested deeper than 32 levels"):
        SpeculativeModel.model_validate(deep)


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("hf://Qwen/Qwen3-8B", Location(Scheme.HF, "Qwen/Qwen3-8B")),
        ("pvc://models/a/b/", Location(Scheme.PVC, "a/b", "models")),
        ("pvc://models", Location(Scheme.PVC, "", "models")),
        ("oci://h:5000/a/b:1#c/d", Location(Scheme.OCI, "c/d", image="h:5000/a/b:1")),
        ("oci://ghcr.io/a/b:1", Location(Scheme.OCI, "", image="ghcr.io/a/b:1")),
        ("file:///srv/models/a", Location(Scheme.FILE, "/srv/models/a")),
    ],
)
def test_uris_split_into_place_and_path(uri: str, location: Location) -> None:
    assert parse_uri(uri) == location


@pytest.mark.parametrize("flag", ["speculative-conf", "speculative_config.method", "max-model", "uds.x"])
def test_owned_flags_are_refused_in_every_spelling_that_vllm_takes(flag: str) -> None:
    case = AdmissionCase("", {"spec": {"engine": {"args": {flag: "x"}}}})
    with pytest.raises(ValidationError, match=re.escape(f"spec.engine.args.{flag} is set by Outrider")):
        SpeculativeModel.model_validate(case.manifest)


@pytest.mark.parametrize("flag", ["--dtype", "-q", "a b", ""])
def test_a_flag_is_written_without_dashes(flag: str) -> None:
    case = AdmissionCase("", {"spec": {"engine": {"args": {flag: "x"}}}})
    with pytest.raises(ValidationError, match=r"spec\.engine\.args"):
        SpeculativeModel.model_validate(case.manifest)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"engine": {"args": {"seed": [{}] * 70_000}}}, "spec.engine.args: more than 4096 values"),
        ({"engine": {"args": {"seed": "x" * 70_000}}}, "spec.engine.args: more than 65536 characters"),
        ({"engine": {"args": {f"x{n}": 1 for n in range(257)}}}, "at most 256"),
        ({"speculation": {"config": {"x": [{}] * 3}}}, "spec.speculation.config.x: must be true or false"),
        ({"speculation": {"config": {"x": [1] * 2_000}}}, "spec.speculation.config: more than 1024 values"),
        ({"podTemplate": {"spec": {"x": [1] * 7_000}}}, "spec.podTemplate.spec: more than 6000 values"),
        ({"podTemplate": {"spec": {"x": "x" * 300_000}}}, "spec.podTemplate.spec: more than 262144 char"),
        ({"podTemplate": {"metadata": {"labels": {"x": [1] * 7_000}}}}, "spec.podTemplate.metadata: more"),
        ({"resources": {"limits": {f"x{n}": 1 for n in range(13_000)}}}, "more than 12000 values"),
    ],
)
def test_a_part_that_is_too_large_is_refused_with_its_field_and_its_limit(
    spec: dict[str, object], why: str
) -> None:
    with pytest.raises(ValidationError, match=re.escape(why)):
        SpeculativeModel.model_validate(AdmissionCase("", {"spec": spec}).manifest)
