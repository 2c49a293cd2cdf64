"""Twenty small sources of every kind: what becomes of each, and that the operator takes it."""

from __future__ import annotations

import json

import pytest
import yaml

from outrider.api.resource import SpeculativeModel
from outrider.importing import Imported, Options, Outcome, import_text
from outrider.plan import ControlKeys, PlanSettings, plan
from tests.unit.importing import import_golden

KEYS = ControlKeys(private="", public="")
SECRETS = ("hf_abcdefghijklmnopqrst", "sk-0123456789abcdef0123", "0123456789abcdef", "password@")


@pytest.mark.parametrize("case", import_golden.cases())
def test_a_source_becomes_the_golden_model_with_the_golden_findings(case: str) -> None:
    assert (import_golden.manifests(case), import_golden.findings(case)) == import_golden.expected(case)


@pytest.mark.parametrize("keep_image", [False, True])
@pytest.mark.parametrize("case", import_golden.cases())
def test_the_operator_can_carry_out_what_is_printed(case: str, *, keep_image: bool) -> None:
    for each in import_golden.imported(case, Options(keep_image=keep_image)):
        model = SpeculativeModel.model_validate(each.manifest)
        if keep_image and model.spec.parallelism.nodes > 1:
            continue
        assert plan(model, settings=PlanSettings(), keys=KEYS).problems == ()


@pytest.mark.parametrize("case", import_golden.cases())
def test_the_printed_text_is_the_model(case: str) -> None:
    printed = list(yaml.safe_load_all(import_golden.manifests(case)))
    assert printed == [json.loads(json.dumps(each.manifest)) for each in import_golden.imported(case)]


@pytest.mark.parametrize("case", import_golden.cases())
def test_nothing_that_is_printed_holds_a_secret(case: str) -> None:
    printed = import_golden.manifests(case) + import_golden.findings(case)
    assert not any(secret in printed for secret in SECRETS)


def test_the_cases_are_five_of_each_of_four_kinds_or_more() -> None:
    assert len(import_golden.cases()) >= 20


def test_a_source_with_its_own_image_is_tuned_by_rolling_restarts() -> None:
    (each,) = import_golden.imported("deployment-eagle3", Options(keep_image=True))
    spec = SpeculativeModel.model_validate(each.manifest).spec
    assert spec.engine.image == "vllm/vllm-openai:v0.33.0"
    assert spec.speculation.tuning.actuation == "Rollout"
    assert not any(finding.what.startswith("image") for finding in each.findings.of(Outcome.DROPPED))


@pytest.mark.parametrize(
    ("image", "plugin"),
    [("mirror.example/vllm/vllm-openai:v0.30.0", None), ("team.example/llm/vllm:v0.30.0", "Injected")],
)
def test_a_source_keeps_its_image_and_release_and_gets_the_plugin(image: str, plugin: str | None) -> None:
    text = (import_golden.FOLDER / "deployment-eagle3.in.yaml").read_text()
    (each,) = import_text(text.replace("vllm/vllm-openai:v0.33.0", image), Options())
    assert isinstance(each, Imported)
    engine = SpeculativeModel.model_validate(each.manifest).spec.engine
    assert (engine.image, engine.version, engine.plugin) == (image, "0.30.0", plugin)


def test_an_image_of_a_release_that_outrider_does_not_serve_is_replaced_and_named() -> None:
    text = (import_golden.FOLDER / "deployment-eagle3.in.yaml").read_text()
    (each,) = import_text(text.replace("v0.33.0", "v0.11.0"), Options())
    assert isinstance(each, Imported)
    assert SpeculativeModel.model_validate(each.manifest).spec.engine.image is None
    assert any("take a newer image" in finding.why for finding in each.findings.of(Outcome.DROPPED))


def test_a_name_and_a_namespace_can_be_chosen() -> None:
    (each,) = import_golden.imported("deployment-eagle3", Options(name="other", namespace="team"))
    assert each.manifest["metadata"] == {"name": "other", "namespace": "team"}
