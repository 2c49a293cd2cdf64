"""What the first page asks to type leads to a model that is admitted and planned, without an edit."""

from __future__ import annotations

import re

import outrider
from outrider.cli.common.manifests import checked, raw_models
from outrider.plan import plan
from outrider_protocol.releases import DEFAULT_RELEASE
from tests.unit.docs.first_page import PAGE, WORDS, settings, values
from tests.unit.docs.pages import text_of
from tests.unit.plan.factories import KEYS


def built() -> set[str]:
    """Tags that the build commands give."""
    return {words[words.index("--tag") + 1] for words in WORDS if "--tag" in words}


def test_every_program_that_is_typed_is_listed_or_comes_on_the_way() -> None:
    of_the_shell_and_coreutils = {"export", "seq", "xargs"}
    of_the_repository = {"outrider"}
    for_a_kind_cluster = {"kind"}
    (listed,) = re.findall(r"^- On your machine: (.+)$", text_of(PAGE), re.M)
    typed = {word for words in WORDS for word in words[:1]}
    typed -= of_the_shell_and_coreutils | of_the_repository | for_a_kind_cluster
    assert "curl" in typed
    assert [word for word in typed if word not in listed.lower()] == []


def test_the_chart_is_given_the_images_that_were_built() -> None:
    operator = f"{values()['image.repository']}:{values()['image.tag']}"
    assert built() == {operator, values()["pluginImage"]}


def test_the_example_is_admitted_and_planned_with_these_values() -> None:
    (applied,) = (words[-1] for words in WORDS if words[:2] == ["kubectl", "apply"])
    (raw,) = raw_models(text_of(applied), applied)
    planned = plan(checked(raw, applied), settings=settings(), keys=KEYS)
    assert planned.problems == ()
    (deployment,) = (child for child in planned.children if child["kind"] == "Deployment")
    assert values()["pluginImage"] in str(deployment)
    assert f"vllm/vllm-openai:v{DEFAULT_RELEASE}" in str(deployment)


def test_requests_name_the_model_as_it_is_served() -> None:
    (raw,) = raw_models(text_of("examples/qwen3-8b-eagle3.yaml"), "example")
    served = checked(raw, "example").spec.model.served_name
    asked = re.findall(r'"model": "([^"]+)"', text_of(PAGE))
    assert len(asked) == 3
    assert set(asked) == {served}


def test_the_version_is_that_of_the_repository() -> None:
    assert values()["image.tag"] == outrider.__version__
