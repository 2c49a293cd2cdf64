"""The InferencePool of a model, and the labels by which it selects pods."""

from __future__ import annotations

from outrider.api.inference_pool import CanaryInPool
from outrider.api.resource import SpeculativeModel
from outrider.plan.children import Manifest, head
from outrider.plan.names import POOL_LABEL
from outrider.runtimes.engine_launch import Role

POOL_KIND = "InferencePool"


def inference_pool(model: SpeculativeModel) -> Manifest | None:
    """The InferencePool; None if the model has none of its own."""
    pool = model.spec.inference_pool
    if pool is None or pool.endpoint_picker is None:
        return None
    name, picker = model.metadata.name, pool.endpoint_picker
    own = head(model, "inference.networking.k8s.io/v1", POOL_KIND, name)
    spec = {
        # The API has equality alone, so what is left out lacks the label.
        "selector": {"matchLabels": {POOL_LABEL: name}},
        "targetPorts": [{"number": pool.port or model.spec.engine.port}],
        "endpointPickerRef": {
            "name": picker.service,
            "port": {"number": picker.port},
            "failureMode": picker.failure_mode.value,
        },
    }
    return {**own, "spec": spec}


def pool_label(model: SpeculativeModel, role: Role) -> dict[str, str]:
    """The label of a pod in a pool; empty for a pod in none."""
    pool = model.spec.inference_pool
    excluded = pool is None or (role is Role.CANARY and pool.canary is CanaryInPool.EXCLUDE)
    if pool is None or excluded or role is Role.WORKER:
        return {}
    return {POOL_LABEL: pool.member_of or model.metadata.name}
