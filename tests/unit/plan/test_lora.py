"""LoRA adapters: from the spec to vLLM's flags and the pod's volumes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.api.resource import SpeculativeModel
from outrider.runtimes.artifacts import claims, images, uses_hub
from outrider.runtimes.vllm.arguments import arguments
from tests.unit.plan.factories import a_plan
from tests.unit.plan.launches import a_launch, advised, refused

HUB = {"name": "legal", "uri": "hf://org/legal-lora"}
CLAIM = {"name": "sql", "uri": "pvc://adapters/sql"}
IMAGE = {"name": "code", "uri": "oci://ghcr.io/org/code:1#adapter"}


def with_adapters(*adapters: dict[str, str], args: dict[str, Any] | None = None) -> SpeculativeModel:
    return a_launch("ngram", uri="file:///m", args=args, engine={"loraAdapters": list(adapters)})


def test_vllm_gets_each_adapter_by_name_and_place() -> None:
    words = arguments(with_adapters(HUB, CLAIM).spec, served_name="m")
    at = words.index("--lora-modules")
    assert "--enable-lora" in words
    assert [json.loads(word) for word in words[at + 1 : at + 3]] == [
        {"name": "legal", "path": "org/legal-lora"},
        {"name": "sql", "path": "/models/adapters/sql"},
    ]


def test_without_adapters_vllm_gets_no_flag_of_them() -> None:
    assert not [word for word in arguments(with_adapters().spec, served_name="m") if "lora" in word]


def test_pods_mount_the_claims_and_images_of_adapters() -> None:
    spec = with_adapters(CLAIM, IMAGE).spec
    assert (claims(spec), images(spec)) == (("adapters",), ("ghcr.io/org/code:1",))
    assert not uses_hub(spec)


def test_an_adapter_of_the_hub_is_downloaded_by_the_engine() -> None:
    assert uses_hub(with_adapters(HUB).spec)


@pytest.mark.parametrize("flag", ["lora-modules", "enable_lora", "enable-lora"])
def test_adapters_in_both_places_are_refused_by_name(flag: str) -> None:
    message = refused(with_adapters(HUB, args={flag: True}))
    assert f"spec.engine.args.{flag} is set by Outrider" in (message or "")


def test_what_users_report_of_adapters_with_drafts_is_a_known_issue() -> None:
    assert "with LoRA adapters" in advised(with_adapters(HUB))
    assert "with LoRA adapters" not in advised(with_adapters())


def test_a_private_adapter_gets_the_token_also_where_weights_come_from_a_volume() -> None:
    model = a_launch(
        "ngram",
        uri="hf://org/target",
        target={},
        model={"uri": "hf://org/target", "secretRef": {"name": "hub"}},
        engine={"loraAdapters": [HUB]},
    )
    assert [each["name"] for each in engine_variables(model)].count("HF_TOKEN") == 1


def engine_variables(model: SpeculativeModel) -> list[dict[str, Any]]:
    deployment = a_plan(model).child("Deployment")
    assert deployment is not None
    spec: Any = deployment["spec"]
    found: list[dict[str, Any]] = spec["template"]["spec"]["containers"][0]["env"]
    return found
