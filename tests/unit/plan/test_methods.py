from __future__ import annotations

import json

import pytest

from outrider.runtimes.vllm.methods import ENGINE_METHODS, engine_config, unsupported_reason
from outrider_protocol.k_control import best_runner
from outrider_protocol.methods import TRAITS, Drafter, Method, Tunability
from outrider_protocol.releases import (
    NEWEST_VERSION,
    VERSIONS,
    parse_version,
    version_text,
)
from tests.unit.plan.factories import a_model, a_plan, environment, flag

SERVED = [method for method, traits in TRAITS.items() if traits.tunability is not Tunability.REFUSED]
OLD_ENGINE = "0.32.0"


def config_of(method: Method) -> dict[str, object] | None:
    traits = TRAITS[method]
    speculation: dict[str, object] = {}
    if traits.drafter is Drafter.REQUIRED:
        speculation["drafter"] = {"uri": "hf://org/drafter"}
    if traits.tunability is Tunability.STATIC and method is not Method.NONE:
        speculation["tuning"] = {"mode": "Off"}
    model = a_model(method=method.value, speculation=speculation, engine={"version": OLD_ENGINE})
    text = flag(a_plan(model), "--speculative-config")
    return None if text is None else json.loads(text)


def test_every_method_is_in_both_registries() -> None:
    assert set(TRAITS) == set(Method) == set(ENGINE_METHODS)


@pytest.mark.parametrize("method", [method for method in SERVED if method is not Method.NONE])
def test_a_served_method_reaches_the_engine(method: Method) -> None:
    config = config_of(method)
    assert config is not None
    assert config["method"] == ("ngram_gpu" if method is Method.NGRAM else engine_config(method)["method"])
    assert config["num_speculative_tokens"] == 5


@pytest.mark.parametrize(("k0", "variable"), [("Sync", "Sync"), ("Skip", "Skip"), ("Auto", None)])
def test_the_engine_is_told_what_its_drafter_does_with_k_0(k0: str, variable: str | None) -> None:
    """Auto is what an engine does without a setting."""
    drafter = {"drafter": {"uri": "hf://org/drafter"}}
    model = a_model(method="draft_model", speculation={**drafter, "tuning": {"k0": k0}})
    assert environment(a_plan(model)).get("OUTRIDER_K0") == variable


def test_parallel_drafters_are_variants_of_their_family() -> None:
    assert engine_config(Method.PARD) == {"method": "draft_model", "parallel_drafting": True}
    assert engine_config(Method.P_EAGLE) == {"method": "eagle3", "parallel_drafting": True}


@pytest.mark.parametrize("method", [method for method in SERVED if method is not Method.NONE])
def test_a_method_is_live_exactly_where_some_release_changes_k(method: Method) -> None:
    """In the newest release, so that a newer one never loses it."""
    live = TRAITS[method].tunability is Tunability.LIVE
    changed = [best_runner(method.variant, version, plugin=True) is not None for version in VERSIONS]
    assert any(changed) is changed[-1] is live


def test_a_removed_method_is_refused_with_the_versions_that_have_it() -> None:
    reason = unsupported_reason(Method.MEDUSA, "0.33.0")
    assert reason is not None
    assert "it runs with 0.26 to 0.32" in reason


def test_a_removed_method_runs_on_the_older_engine() -> None:
    assert unsupported_reason(Method.MEDUSA, OLD_ENGINE) is None


def test_an_engine_older_than_the_plugin_is_refused() -> None:
    reason = unsupported_reason(Method.NGRAM, "0.25.9")
    assert reason is not None
    assert "set spec.engine.version to 0.26.0 or newer" in reason


def test_an_engine_that_nobody_checked_is_refused() -> None:
    reason = unsupported_reason(Method.NGRAM, f"0.{NEWEST_VERSION[1] + 1}.0")
    assert reason is not None
    assert f"set spec.engine.version to {version_text(NEWEST_VERSION)}.0 or older" in reason


@pytest.mark.parametrize(("text", "version"), [("0.33.0", (0, 33)), ("0.33.1rc2", (0, 33))])
def test_versions_are_read_by_their_numbers(text: str, version: tuple[int, int]) -> None:
    assert parse_version(text) == version
