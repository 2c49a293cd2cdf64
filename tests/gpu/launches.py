"""The engines of the check, with flags and variables as the operator's planner gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from outrider.api.resource import SpeculativeModel
from outrider.api.speculation_fields import Verification
from outrider.plan import ControlKeys, PlanSettings, plan
from outrider_protocol.methods import Method
from outrider_protocol.releases import Runner
from tests.contract.engine import SERVED_NAME
from tests.gpu.models import Pair, synthetic_acceptance
from tests.gpu.places import Place

README = Path(__file__).parents[2] / "README.md"
PASSED_ON = ("VLLM_", "OUTRIDER_", "NUMBA_")
"""Variables of the pod that concern the engine and not its container."""
CACHE_BYTES = 3 * 2**30
"""KV cache of an engine beside others: 64 requests of 300 tokens of an 8B Llama. With a given size, vLLM
measures no free memory at its start, which other engines change at the same time."""
UNPROFILED: Mapping[str, str] = {"OUTRIDER_SWEEP": "0"}
"""The startup profile takes up to 20 s of a start, and only the first page's is judged."""
RUNNER_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
_SPECULATION = "--speculative-config="


class Arm(StrEnum):
    """One engine of the check."""

    FIRST_PAGE = "first page"
    """The README's manifest, alone on the GPU."""
    NONE = "no drafter"
    STATIC = "static"
    LIVE = "live"
    FOLLOWING = "live, with a drafter that follows at K=0"
    LIVE_V1 = "live on V1"
    ADAPTIVE = "static, with adaptive verification"
    TWO = "two candidates"
    THREE = "three candidates"


@dataclass(frozen=True, slots=True)
class Models:
    """What is served. k0: see `spec.speculation.tuning.k0`. vllm: the release that is installed."""

    pair: Pair
    method: Method
    candidates: Sequence[int]
    vllm: str
    memory_share: float
    k0: str = "Auto"

    @property
    def k(self) -> int:
        """The K of the launch."""
        return max(self.candidates)

    @property
    def release(self) -> str:
        """The version without its local part, as manifests name it."""
        return ".".join(self.vllm.split("+")[0].split(".")[:3])


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the engine container is started with."""

    flags: Sequence[str]
    variables: Mapping[str, str]

    @property
    def on_v1(self) -> bool:
        """Whether the operator asks vLLM for its V1 runner."""
        return self.variables.get(RUNNER_VARIABLE) == "0"


def launch(arm: Arm, models: Models, place: Place) -> Rendered:
    """The launch of one arm.

    Raises:
        ValueError: the planner makes no engine of it; the message says why.
    """
    if arm is Arm.FIRST_PAGE:
        return _added(_rendered(_first_page(models), models, place), models, place)
    speculation, engine = _of_arm(arm, models)
    args: dict[str, object] = {"max-num-seqs": place.max_num_seqs}
    if not place.dry:
        args |= {"gpu-memory-utilization": models.memory_share, "kv-cache-memory-bytes": CACHE_BYTES}
    spec = {"speculation": speculation, "engine": {"args": args, **engine}}
    rendered = _rendered(spec, models, place)
    return _added(replace(rendered, variables={**rendered.variables, **UNPROFILED}), models, place)


def _of_arm(arm: Arm, models: Models) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Speculation and engine of the manifest."""
    drafted: dict[str, object] = {"method": models.method.value, "numSpeculativeTokens": models.k}
    if models.pair.drafter is not None:
        drafted["drafter"] = {"uri": f"file://{models.pair.drafter}"}
    fixed = {**drafted, "candidates": [models.k], "tuning": {"mode": "Off"}}

    def live(candidates: Sequence[int], k0: str = models.k0) -> Mapping[str, object]:
        return {**drafted, "candidates": list(candidates), "tuning": {"k0": k0}}

    match arm:
        case Arm.NONE:
            return {"method": "none"}, {}
        case Arm.STATIC:
            return fixed, {}
        case Arm.ADAPTIVE:
            return {**fixed, "verification": Verification.ADAPTIVE.value}, {}
        case Arm.FOLLOWING:
            return live(models.candidates, "Sync"), {}
        case Arm.LIVE_V1:
            return live(models.candidates), {"modelRunner": Runner.V1.value}
        case Arm.TWO:
            return live([0, models.k]), {}
        case Arm.THREE:
            return live(sorted({0, -(-models.k // 2), models.k})), {}
        case _:
            return live(models.candidates), {}


def _first_page(models: Models) -> dict[str, object]:
    """The spec of the README's manifest, with the method, the drafter and the candidates of the check."""
    blocks = re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    manifests = [yaml.safe_load(block) for block in blocks]
    spec: dict[str, Any] = next(each["spec"] for each in manifests if each["kind"] == "SpeculativeModel")
    own = {
        "method": models.method.value,
        "numSpeculativeTokens": models.k,
        "candidates": list(models.candidates),
    }
    speculation = {**spec["speculation"], **own}
    del speculation["drafter"]
    if models.pair.drafter is not None:
        speculation["drafter"] = {"uri": f"file://{models.pair.drafter}"}
    return {**spec, "speculation": speculation}


def _rendered(spec: Mapping[str, Any], models: Models, place: Place) -> Rendered:
    engine: dict[str, object] = {"version": models.release, "image": "engine:1", **spec.get("engine", {})}
    manifest = {
        "metadata": {"name": SERVED_NAME},
        "spec": {
            **spec,
            **place.spec,
            "model": {"uri": f"file://{models.pair.target}"},
            "engine": engine,
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


def _added(rendered: Rendered, models: Models, place: Place) -> Rendered:
    """With what a made model and the place need beyond the operator's launch."""
    flags = [*rendered.flags, *place.flags]
    if models.pair.made:
        flags = [*(_by_chance(word) for word in flags), "--load-format=dummy"]
    return replace(rendered, flags=tuple(flags), variables={**rendered.variables, **place.variables})


def _by_chance(word: str) -> str:
    """The speculative configuration with acceptance by chance; any other flag as it is."""
    if not word.startswith(_SPECULATION):
        return word
    config = json.loads(word.removeprefix(_SPECULATION))
    config |= synthetic_acceptance(config["num_speculative_tokens"])
    return _SPECULATION + json.dumps(config)
