"""A new drafter is tried by a canary: what is applied, what the status reports, and what the tuner sees."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.api.launch import DrafterTrial, DrafterVerdict, Launch, LaunchOrder, TrialStage
from outrider.cluster.resources import CONFIG_MAPS, DEPLOYMENTS
from outrider.controller.store_fleet import StoreFleet
from outrider.plan.names import REVISION_LABEL, ROLE_LABEL
from tests.unit.controller.factories import a_condition, a_launch_order, a_raw_pod
from tests.unit.controller.place import BOOM, Deployments, a_model_that_serves

CANARY_PATH = DEPLOYMENTS.path("default", "m-canary")
ALLOW: dict[str, Any] = {"canary": "Allow"}


def with_drafter(name: str, **tuning: Any) -> dict[str, Any]:
    return {
        "method": "draft_model",
        "drafter": {"uri": f"file:///models/{name}"},
        "numSpeculativeTokens": 3,
        "tuning": ALLOW | tuning,
    }


class Trial:
    """Two replicas with the drafter `old`, after the user wrote `new`."""

    def __init__(self, deployments: Deployments) -> None:
        self.deployments, self.place = deployments, deployments.place
        self.former = deployments.revision

    async def begin(self, **spec: Any) -> None:
        self.deployments.change(**{"speculation": with_drafter("new"), **spec})
        await self.place.passes()

    @property
    def canary(self) -> Any:
        return self.place.cluster.objects.get(CANARY_PATH)

    @property
    def spec(self) -> str:
        trial = self.deployments.memory.trial
        assert trial is not None
        return trial.spec

    @property
    def replicas(self) -> int:
        return int(self.deployments.raw["spec"]["replicas"])

    async def canary_pod(self, *, ready: bool = True, **state: Any) -> None:
        labels = self.canary["spec"]["template"]["metadata"]["labels"]
        pod = a_raw_pod("m-canary-1", revision=labels[REVISION_LABEL], ready=ready, **state)
        pod["metadata"]["labels"][ROLE_LABEL] = "canary"
        self.place.store.pods.put(pod)
        await self.place.passes()

    async def canary_gives_up(self) -> None:
        await self.canary_pod(ready=False, **BOOM)
        late = a_condition("Progressing", "False", reason="ProgressDeadlineExceeded")
        metadata = {**self.canary["metadata"], "resourceVersion": "95000"}
        seen = {**self.canary, "metadata": metadata, "status": {"conditions": [late]}}
        self.place.store.children[DEPLOYMENTS].put(seen)
        await self.place.passes()

    async def judged(self, *, promoted: bool, why: str = "") -> None:
        order = a_launch_order(version=90_000)
        verdict = DrafterVerdict(self.spec, promoted, why)
        order["data"] = LaunchOrder(drafter=verdict).to_data()
        self.place.store.children[CONFIG_MAPS].put(order)
        await self.place.passes()

    def tuned(self) -> Any:
        (found,) = StoreFleet(self.place.store).tuned_models()
        return found


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
