from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from outrider.api.resource import SpeculativeModel
from outrider.api.speculation import TuningMode
from outrider.cluster.resources import JsonObject
from tests.bench.engine.engines import law_of, plain_manifest, speculative_manifest
from tests.bench.engine.pace import TICK_VARIABLE, with_scrapes, with_tick


@pytest.fixture
def example() -> JsonObject:
    found: JsonObject = yaml.safe_load(Path("examples/tiny-draft-model.yaml").read_text())
    return found


def test_the_bench_starts_from_the_hand_table_without_tuning(example: JsonObject) -> None:
    spec = SpeculativeModel.model_validate(speculative_manifest(example)).spec
    assert str(spec.static_schedule()) == "8:5,32:3,*:0"
    assert spec.tuning_mode is TuningMode.OFF


def test_the_plain_engine_differs_in_speculation_alone(example: JsonObject) -> None:
    plain, speculative = plain_manifest(example), speculative_manifest(example)
    assert SpeculativeModel.model_validate(plain).spec.candidates() == (0,)
    assert plain["metadata"]["name"] != speculative["metadata"]["name"]
    without = [{k: v for k, v in one["spec"].items() if k != "speculation"} for one in (plain, speculative)]
    assert without[0] == without[1]


def test_the_example_itself_stays_as_it_is(example: JsonObject) -> None:
    before = yaml.safe_dump(example)
    speculative_manifest(example)
    plain_manifest(example)
    assert yaml.safe_dump(example) == before


def test_rules_know_the_candidates_and_the_largest_batch(example: JsonObject) -> None:
    law = law_of(example)
    assert (law.candidates, law.max_num_seqs) == ((0, 1, 2, 3, 5), 64)


def test_only_the_scrape_interval_and_its_timeout_change() -> None:
    before = "global: {scrape_interval: 1s, scrape_timeout: 900ms}\nscrape_configs: []\n"
    after = "global: {scrape_interval: 10000ms, scrape_timeout: 5000ms}\nscrape_configs: []\n"
    assert with_scrapes(before, 10.0) == after


def test_a_configuration_without_a_global_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="scrape_interval"):
        with_scrapes("scrape_configs: []\n", 10.0)


def a_deployment(*variables: dict[str, str]) -> dict[str, Any]:
    containers = [{"name": "outrider", "env": list(variables)}]
    return {"kind": "Deployment", "spec": {"template": {"spec": {"containers": containers}}}}


def test_only_the_interval_of_the_tuning_loop_changes() -> None:
    other = {"name": "OTHER", "value": "1"}
    before = a_deployment(other, {"name": TICK_VARIABLE, "value": "5"})
    assert with_tick(before, 10.0) == a_deployment(other, {"name": TICK_VARIABLE, "value": "10"})
    assert before == a_deployment(other, {"name": TICK_VARIABLE, "value": "5"})


def test_an_operator_without_an_interval_is_refused() -> None:
    with pytest.raises(ValueError, match=TICK_VARIABLE):
        with_tick(a_deployment(), 10.0)
