"""The examples for teams: each is admitted and planned, and does what the page says of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from outrider.api.resource import SpeculativeModel
from outrider.api.tuning import Actuation
from outrider.plan import Plan, plan
from tests.unit.docs import how_to
from tests.unit.docs.first_page import settings
from tests.unit.docs.pages import text_of
from tests.unit.plan.factories import KEYS, arguments, environment, flag, pod_spec

PAGE = text_of(how_to.PAGE)


def raw(example: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((how_to.FOLDER / f"{example}.yaml").read_text())
    return found


def a_model(example: str) -> SpeculativeModel:
    return SpeculativeModel.model_validate(raw(example))


def planned(example: str) -> Plan:
    """With the values of the first page."""
    return plan(a_model(example), settings=settings(), keys=KEYS)


def test_the_page_has_a_section_for_every_example() -> None:
    linked = re.findall(r"^\[`(.+)\.yaml`\]\(\.\./\.\./examples/teams/(.+)\.yaml\)$", PAGE, re.M)
    assert sorted(name for name, _ in linked) == sorted(target for _, target in linked)
    assert sorted(name for name, _ in linked) == list(how_to.EXAMPLES)


def test_every_section_says_for_whom_what_to_change_what_to_expect_and_its_limits() -> None:
    sections = PAGE.split("\n## ")[2:]
    assert len(sections) == len(how_to.EXAMPLES)
    for section in sections:
        assert re.findall(r"^- \*\*(.+?)\*\*:", section, re.M) == ["For", "Change", "Expect", "Limits"]


def test_the_table_is_what_plan_says_today() -> None:
    assert set(how_to.GPUS) == set(how_to.EXAMPLES)
    assert how_to.table() == how_to.reckoned()


@pytest.mark.parametrize("example", how_to.EXAMPLES)
def test_an_example_is_planned_without_an_edit(example: str) -> None:
    found = planned(example)
    assert found.problems == ()
    kinds = {child["kind"] for child in found.children}
    assert "Job" in kinds if a_model(example).spec.cache else "Deployment" in kinds


def test_a_stock_engine_gets_its_table_as_flags_and_no_plugin() -> None:
    model, found = a_model("stock-engine"), planned("stock-engine")
    assert model.spec.speculation.tuning.actuation is Actuation.ROLLOUT
    assert '"num_speculative_tokens_per_batch_size":[[1,32,2],[33,128,0]]' in str(
        flag(found, "--speculative-config")
    )
    assert environment(found)["VLLM_PLUGINS"] == ""


def test_nothing_leaves_an_air_gapped_cluster() -> None:
    found = planned("air-gapped")
    assert environment(found)["HF_HUB_OFFLINE"] == "1"
    assert not any("hf://" in word or "huggingface" in word for word in arguments(found))
    assert pod_spec(found)["imagePullSecrets"] == [{"name": "registry"}]


def test_the_token_of_a_gated_model_is_the_jobs_alone() -> None:
    (job,) = (child for child in planned("gated-token").children if child["kind"] == "Job")
    assert "hf-token" in str(job)
    assert "Deployment" not in {child["kind"] for child in planned("gated-token").children}


def test_a_scaled_model_is_the_one_that_the_autoscalers_name_and_leaves_replicas_to_them() -> None:
    scaled = raw("chat-autoscaled")
    for file in ("hpa", "keda"):
        target = yaml.safe_load(text_of(f"examples/autoscaling/{file}.yaml"))["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) == (scaled["kind"], scaled["metadata"]["name"])
    assert "replicas" not in scaled["spec"]
