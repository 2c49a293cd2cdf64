"""Which stand-in a run is measured on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from examples.kit.loads import Prompts
from outrider.api.resource import SpeculativeModel
from outrider.cluster.resources import JsonObject
from outrider_twin.description import shipped
from outrider_twin.refusal import MARK
from outrider_twin.settings import VARIABLE, parse_settings
from tests.bench.engine.engines import plain_manifest, speculative_manifest
from tests.bench.engine.stand_in import TRACES, drawn_trace, stand_in
from tests.bench.engine.trace import parse_trace


@pytest.fixture
def example() -> JsonObject:
    found: JsonObject = yaml.safe_load(Path("examples/twin-h100.yaml").read_text())
    return found


def told(manifest: JsonObject) -> Any:
    (container,) = manifest["spec"]["podTemplate"]["spec"]["containers"]
    return next(one["value"] for one in container["env"] if one["name"] == VARIABLE)


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_engine_makes_a_model_that_the_operator_and_the_engine_take(
    example: JsonObject, name: str
) -> None:
    manifest = stand_in(example, name).manifest
    for one in (speculative_manifest(manifest, pods=4), plain_manifest(manifest, pods=4)):
        spec = SpeculativeModel.model_validate(one).spec
        assert spec.replicas == 4
        assert MARK in (spec.model.served_name or "")
        assert parse_settings(told(one)).description()


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_engine_has_traces_of_its_own_texts(example: JsonObject, name: str) -> None:
    for text in TRACES[name]:
        assert len(parse_trace(text, Prompts.CODE, stand_in(example, name).texts)) >= 3


def test_what_was_measured_once_is_as_sure_as_the_noise_allows(example: JsonObject) -> None:
    assert stand_in(example, "h100_8b").single_noise == pytest.approx(0.0224, abs=1e-4)


@pytest.mark.parametrize("name", shipped())
def test_a_drawn_trace_follows_from_the_commit_and_ends_with_turns(example: JsonObject, name: str) -> None:
    twin = stand_in(example, name)
    texts = {drawn_trace(twin, f"{number:040x}") for number in range(20)}
    assert len(texts) > 10
    for text in texts:
        *held, first, second, third, fourth = parse_trace(text, Prompts.CODE, twin.texts)
        assert len({phase.load.streams for phase in held}) == len(held)
        assert (first, second) == (third, fourth)
        assert first.load != second.load
    assert drawn_trace(twin, "0" * 40) in texts
