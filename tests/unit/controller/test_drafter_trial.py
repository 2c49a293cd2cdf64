"""A new drafter is tried by a canary: what is applied, what the status reports, and what the tuner sees."""

from __future__ import annotations

import pytest

from outrider.api.launch import DrafterTrial, Launch, TrialStage
from tests.unit.controller.place import a_model_that_serves
from tests.unit.controller.trial_place import Trial, with_drafter


@pytest.fixture
async def trial() -> Trial:
    found = Trial(await a_model_that_serves(speculation=with_drafter("old")))
    await found.begin()
    return found


async def test_a_canary_gets_the_new_drafter_and_the_replicas_keep_theirs(trial: Trial) -> None:
    assert trial.deployments.revision == trial.former
    assert "/models/new" in str(trial.canary["spec"]["template"])
    assert "/models/new" not in str(trial.deployments.raw["spec"]["template"])
    assert trial.replicas == 2
    conditions = trial.place.conditions
    assert (conditions["Ready"], conditions["Progressing"]) == ("Serving", "ComparingDrafters")
    assert "Degraded" not in conditions
    assert [event["reason"] for event in trial.place.cluster.events].count("CanaryStarted") == 1


async def test_a_canary_that_serves_takes_the_place_of_a_replica(trial: Trial) -> None:
    await trial.canary_pod()
    assert (trial.replicas, trial.deployments.revision) == (1, trial.former)


async def test_the_tuner_sees_which_pods_have_the_new_drafter(trial: Trial) -> None:
    await trial.canary_pod()
    found = trial.tuned()
    assert found.trial == DrafterTrial(trial.spec, TrialStage.COMPARING, "file:///models/new")
    assert [pod.tried for pod in found.pods if pod.canary] == [True]
    assert {pod.tried for pod in found.pods if not pod.canary} == {False}
    assert {pod.launch for pod in found.pods} == {Launch()}


async def test_a_promoted_drafter_reaches_the_replicas_while_the_canary_stands_in(trial: Trial) -> None:
    await trial.canary_pod()
    spec = trial.spec
    await trial.judged(promoted=True)
    assert "/models/new" in str(trial.deployments.raw["spec"]["template"])
    assert trial.replicas == 1
    assert trial.tuned().trial == DrafterTrial(spec, TrialStage.PROMOTED, "file:///models/new")
    await trial.deployments.complete()
    assert trial.replicas == 2
    await trial.deployments.complete()
    assert trial.canary is None
    assert trial.deployments.memory.trial is None
    assert trial.tuned().trial is None
    assert trial.place.conditions["Progressing"] == "Complete"


async def test_a_slower_drafter_is_kept_out_with_its_figures(trial: Trial) -> None:
    await trial.canary_pod()
    await trial.judged(promoted=False, why="It is slower: -20.0 % (95 %: -25.0 to -15.0 %).")
    assert (trial.deployments.revision, trial.replicas) == (trial.former, 2)
    assert trial.place.conditions["Degraded"] == "DrafterSlower"
    assert trial.place.conditions["Ready"] == "RolledBack"
    assert "-25.0 to -15.0 %" in trial.place.trouble
    found = trial.tuned()
    assert found.trial.stage is TrialStage.RETURNED
    assert found.returned_table is None


async def test_without_a_canary_the_slower_drafter_is_rolled_out(trial: Trial) -> None:
    await trial.judged(promoted=False, why="It is slower.")
    assert trial.deployments.revision == trial.former
    trial.deployments.change(speculation=with_drafter("new", canary="Never"))
    await trial.place.passes()
    assert "/models/new" in str(trial.deployments.raw["spec"]["template"])


async def test_a_drafter_that_does_not_load_is_reported_and_the_replicas_stay(trial: Trial) -> None:
    await trial.canary_gives_up()
    assert (trial.deployments.revision, trial.replicas) == (trial.former, 2)
    assert trial.canary is None
    assert trial.place.conditions["Degraded"] == "RolledBack"
    assert "boom" in trial.place.trouble
    assert "kept the last good revision" in trial.place.trouble
    assert trial.tuned().trial.stage is TrialStage.RETURNED


async def test_one_replica_is_rolled_out_without_a_trial() -> None:
    found = Trial(await a_model_that_serves(speculation=with_drafter("old"), replicas=1))
    await found.begin(replicas=1)
    assert "/models/new" in str(found.deployments.raw["spec"]["template"])
    assert found.canary is None


async def test_another_k_with_the_drafter_is_rolled_out_without_a_trial() -> None:
    found = Trial(await a_model_that_serves(speculation=with_drafter("old")))
    await found.begin(speculation=with_drafter("new") | {"numSpeculativeTokens": 5})
    assert found.canary is None
    assert found.deployments.revision != found.former


async def test_more_replicas_during_a_trial_have_the_drafter_before(trial: Trial) -> None:
    await trial.canary_pod()
    trial.deployments.change(speculation=with_drafter("new"), replicas=4)
    await trial.place.passes()
    assert (trial.replicas, trial.deployments.revision) == (3, trial.former)
