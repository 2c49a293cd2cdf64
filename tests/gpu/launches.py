"""The engines of the check, with flags and variables as the operator's planner gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.api.resource import SpeculativeModel
from outrider.plan import ControlKeys, PlanSettings, plan
from outrider_protocol.methods import Method
from outrider_protocol.releases import Response, Runner, parse_version, response
from tests.contract.engine import SERVED_NAME

NONE, STATIC, LIVE, LIVE_V1 = "no drafter", "static", "live", "live on V1"

PASSED_ON = ("VLLM_", "OUTRIDER_", "NUMBA_")
"""Variables of the pod that concern the engine and not its container."""


@dataclass(frozen=True, slots=True)
class Models:
    """What is served. drafter: None for methods that have none. k0: see `spec.speculation.tuning.k0`."""

    target: Path
    drafter: Path | None
    method: Method
    candidates: Sequence[int]
    vllm: str
    k0: str = "Auto"

    @property
    def k(self) -> int:
        """The K of the launch."""
        return max(self.candidates)


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the engine container is started with."""

    flags: Sequence[str]
    variables: Mapping[str, str]


def arms(models: Models, *, max_num_seqs: int, memory_share: float) -> dict[str, Rendered]:
    """Every engine of the check by its name; V1 only where V2 is what `Auto` takes.

    Raises:
        ValueError: the planner makes no engine of it; the message says why.
    """
    speculation: dict[str, object] = {"method": models.method.value, "numSpeculativeTokens": models.k}
    if models.drafter is not None:
        speculation["drafter"] = {"uri": f"file://{models.drafter}"}
    live = {**speculation, "candidates": list(models.candidates), "tuning": {"k0": models.k0}}
    told: dict[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
        NONE: ({"method": "none"}, {}),
        STATIC: ({**speculation, "candidates": [models.k], "tuning": {"mode": "Off"}}, {}),
        LIVE: (live, {}),
    }
    if response(models.method.variant, Runner.V2, parse_version(models.vllm)) is Response.FOLLOWS:
        told[LIVE_V1] = (live, {"modelRunner": "V1"})
    args = {"max-num-seqs": max_num_seqs, "gpu-memory-utilization": memory_share}
    return {
        name: _rendered(models, speculation, {"args": args, **engine})
        for name, (speculation, engine) in told.items()
    }


def _rendered(models: Models, speculation: Mapping[str, object], engine: Mapping[str, object]) -> Rendered:
    version = ".".join(models.vllm.split("+")[0].split(".")[:3])
    manifest = {
        "metadata": {"name": SERVED_NAME},
        "spec": {
            "model": {"uri": f"file://{models.target}"},
            "speculation": speculation,
            "engine": {"version": version, "image": "engine:1", **engine},
        },
    }
    keys = ControlKeys(private="private", public="public")
    planned = plan(SpeculativeModel.model_validate(manifest), settings=PlanSettings(), keys=keys)
    deployment: Any = planned.child("Deployment")
    if deployment is None:
        raise ValueError("; ".join(message for _, message in planned.problems))
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    variables = {
        each["name"]: each["value"]
        for each in container["env"]
        if each["name"].startswith(PASSED_ON) and "value" in each and not each["value"].startswith("/")
    }
    return Rendered(tuple(container["args"]), variables)
