"""Which engines can change K while they run, and what they say if not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider_engine.vllm_adapter.support import VllmFacts, obstacle, refused_k, why_drafter_runs
from outrider_protocol.methods import K0
from outrider_protocol.releases import NEWEST_VERSION, Response, Runner, parse_version, response
from tests.unit.engine_plugin.factories import some_facts


@pytest.mark.parametrize("method", ["draft_model", "eagle", "eagle3", "mtp", "ngram", "dflash"])
def test_a_method_that_follows_k_has_no_obstacle(method: str) -> None:
    assert obstacle(some_facts(method=method), has_table=True) is None


@pytest.mark.parametrize("method", ["suffix", "ngram_gpu", "extract_hidden_states", "medusa"])
def test_a_method_that_asserts_on_k_has_that_obstacle(method: str) -> None:
    reason = obstacle(some_facts(method=method), has_table=True)
    assert reason == f"method {method} ends the engine when K is not the configured one"


@pytest.mark.parametrize("method", ["draft_model", "eagle", "eagle3"])
def test_parallel_drafting_takes_no_other_k(method: str) -> None:
    reason = obstacle(replace(some_facts(method=method), parallel_drafting=True), has_table=True)
    assert reason == f"method {method}+parallel ends the engine when K is not the configured one"


def test_dflash_drafts_in_parallel_by_nature() -> None:
    assert obstacle(replace(some_facts(method="dflash"), parallel_drafting=True), has_table=True) is None


def test_an_unknown_method_is_not_tuned() -> None:
    reason = obstacle(some_facts(method="new_one"), has_table=True)
    assert reason == "the V1 runner of vLLM 0.32.0 is not known to have method new_one"


def test_a_runner_that_ignores_k_is_not_tuned() -> None:
    facts = replace(some_facts(runner=Runner.V2), engine_version="0.31.0")
    reason = obstacle(facts, has_table=True)
    assert reason == "the V2 runner of vLLM 0.31.0 ignores K of method draft_model"


@pytest.mark.parametrize("method", ["dflash", "dspark", "ngram", "ngram_gpu", "draft_model"])
def test_a_drafter_of_full_length_is_tuned_where_k_is_the_verification_width(method: str) -> None:
    facts = replace(some_facts(runner=Runner.V2), method=method, engine_version="0.32.0")
    assert obstacle(facts, has_table=True) is None


def test_several_prediction_modules_are_tuned_by_their_verification_width() -> None:
    facts = replace(some_facts(runner=Runner.V2), method="mtp", several_modules=True)
    assert obstacle(replace(facts, engine_version="0.32.0"), has_table=True) is None
    assert obstacle(replace(facts, engine_version="0.31.0"), has_table=True) is not None


def test_a_method_changes_with_the_version() -> None:
    answers = [response("eagle", Runner.V2, (0, minor)) for minor in (31, 32)]
    assert answers == [Response.FULL_LENGTH, Response.FOLLOWS]


@pytest.mark.parametrize("version", ["0.25.1", f"0.{NEWEST_VERSION[1] + 1}.0", "1.0.0", "dev"])
def test_an_unchecked_version_is_not_tuned(version: str) -> None:
    reason = obstacle(replace(some_facts(), engine_version=version), has_table=True)
    assert reason == f"vLLM {version} was not checked for live tuning"


def test_a_local_build_counts_as_its_version() -> None:
    assert parse_version("0.32.1.dev3+g0123.cpu") == (0, 32)


def test_an_engine_without_a_schedule_has_an_obstacle() -> None:
    reason = obstacle(some_facts(), has_table=False)
    assert reason is not None
    assert "num_speculative_tokens_per_batch_size" in reason


# Leaving the drafter out while K is 0.


SKIPPED = pytest.mark.parametrize(
    "facts",
    [
        some_facts(),
        some_facts(method="eagle3"),
        some_facts(method="mtp"),
        *[
            replace(some_facts(method=method, runner=Runner.V2), async_scheduling=asynchronous)
            for method in ("draft_model", "eagle3", "mtp")
            for asynchronous in (False, True)
        ],
    ],
    ids=lambda facts: f"{facts.method} {facts.runner} {'asynchronous' if facts.async_scheduling else ''}",
)


@SKIPPED
@pytest.mark.parametrize("k0", [K0.AUTO, K0.SKIP])
def test_a_drafter_that_can_catch_up_is_left_out(facts: VllmFacts, k0: K0) -> None:
    assert why_drafter_runs(replace(facts, k0=k0)) is None


def test_sync_leaves_no_drafter_out() -> None:
    assert why_drafter_runs(replace(some_facts(), k0=K0.SYNC)) == "tuning.k0 is Sync"


@pytest.mark.parametrize(
    "facts",
    [
        replace(some_facts(), async_scheduling=True),
        some_facts(method="eagle"),
        some_facts(method="eagle", runner=Runner.V2),
        replace(some_facts(method="mtp", runner=Runner.V2), adaptive_verification=True),
    ],
    ids=["asynchronous on V1", "EAGLE", "EAGLE on V2", "adaptive verification"],
)
def test_what_was_not_run_yet_is_skipped_only_on_request(facts: VllmFacts) -> None:
    assert "is not tested" in str(why_drafter_runs(facts))
    assert why_drafter_runs(replace(facts, k0=K0.SKIP)) is None


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (replace(some_facts(method="eagle3"), async_scheduling=True), "asynchronous scheduler"),
        (replace(some_facts(method="mtp"), several_modules=True), "several modules"),
        (some_facts(method="ngram"), "searches the text"),
        (some_facts(method="ngram_gpu", runner=Runner.V2), "searches the text"),
        (some_facts(method="dflash"), "of method dflash cannot"),
        (replace(some_facts(runner=Runner.V2), engine_version="0.31.0"), "0.32 and later do"),
        (some_facts(data_parallel_size=2), "data parallelism"),
        (replace(some_facts(runner=Runner.V2), pipeline_parallel_size=2), "pipeline parallelism"),
        (replace(some_facts(), context_parallel=True), "context parallelism"),
        (replace(some_facts(), parallel_drafting=True), "in parallel"),
        (replace(some_facts(), multimodal=True), "images"),
        (replace(some_facts(), shares_cache=True), "with gaps"),
        (replace(some_facts(), windowed_drafter=True), "attention window"),
        (replace(some_facts(), recurrent_drafter=True), "state from token to token"),
        (replace(some_facts(), simulated="an H100"), "simulated"),
        (replace(some_facts(), engine_version="0.99.0"), "was not checked"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_drafter_that_cannot_catch_up_follows_every_step(facts: VllmFacts, why: str) -> None:
    assert why in str(why_drafter_runs(replace(facts, k0=K0.SKIP)))


@pytest.mark.parametrize("runner", Runner)
@pytest.mark.parametrize(
    ("version", "refused"), [("0.26.0", [0]), ("0.31.0", [0]), ("0.32.0", []), ("0.33.0", [])]
)
def test_k0_is_refused_for_recurrent_targets_before_the_release_with_the_fix(
    runner: Runner, version: str, refused: list[int]
) -> None:
    facts = replace(some_facts(runner=runner), engine_version=version, recurrent=True)
    assert sorted(refused_k(facts)) == refused


def test_drafters_that_search_the_text_make_such_steps_with_every_other_k() -> None:
    facts = replace(some_facts(method="ngram"), engine_version="0.29.0", recurrent=True)
    assert sorted(refused_k(facts)) == [1, 2, 3, 4, 5]


def test_targets_without_a_state_are_right_with_every_k() -> None:
    assert refused_k(replace(some_facts(), engine_version="0.29.0")) == {}
