"""Two replicas with a drafter, after the user wrote another one."""

from __future__ import annotations

from typing import Any

from outrider.api.launch import DrafterVerdict, LaunchOrder
from outrider.cluster.resources import CONFIG_MAPS, DEPLOYMENTS
from outrider.controller.store_fleet import StoreFleet
from outrider.plan.names import REVISION_LABEL, ROLE_LABEL
from tests.unit.controller.factories import a_condition, a_launch_order, a_raw_pod
from tests.unit.controller.place import BOOM, Deployments

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
