"""The cost model that the engines of one model get, and when they get none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from outrider.api.reasons import TuningReason
from outrider.api.tuning import TuningMode
from outrider.controller.fleet import EnginePod, TunedModel
from outrider.controller.tune.engine_info import EngineInfo
from outrider.controller.tune.permission import Permission
from outrider.engine.state import FastLoop
from outrider.tuning.cost_model import next_cost_model
from outrider.tuning.decision import Decision
from outrider.tuning.policy import span
from outrider_protocol.cost_model import CostModel


@dataclass(frozen=True, slots=True)
class Teaching:
    """What one tick pushes beside the schedule.

    cost_model: None: engines choose K by the schedule alone.
    pods: UIDs of the pods that get it; the others take none, or were launched otherwise.
    """

    cost_model: CostModel | None = None
    pods: frozenset[str] = frozenset()


class CostModels:
    """Keeps the last cost model, so that engines get another only where it would choose other K."""

    def __init__(self) -> None:
        self._last: CostModel | None = None

    def of_tick(
        self,
        model: TunedModel,
        rule: Permission,
        decision: Decision | None,
        pods: Sequence[EnginePod],
        engine_infos: Iterable[EngineInfo],
    ) -> Teaching:
        """pods: the ready ones with a drafter."""
        launches = {one.pod: one.launch for one in engine_infos if one.launch is not None}
        if not _decides(rule):
            # Kept, so that engines get it again as soon as the person or the error gives the choice back.
            return Teaching()
        if not launches or not _lets_engines_choose(model):
            self._last = None
        elif decision is not None:
            self._last = next_cost_model(self._last, decision)
        if self._last is None:
            return Teaching()
        launch = _most_common(launches.values())
        self._last = replace(self._last, revision=launch)
        taught = frozenset(pod.address.pod_uid for pod in pods if launches.get(pod.name) == launch)
        return Teaching(self._last, taught)


def _decides(rule: Permission) -> bool:
    """While the load spreads over other replicas the tuner holds, and engines keep their choice."""
    return rule.active or rule.reason is TuningReason.SETTLING


def _lets_engines_choose(model: TunedModel) -> bool:
    """Whether the tuner may change K in running engines, and these can choose it by a cost model."""
    return model.mode is TuningMode.AUTO and model.can.cost_model


def _most_common(launches: Iterable[str]) -> str:
    found = list(launches)
    return max(sorted(set(found)), key=found.count)


def described(teaching: Teaching, fast_loops: Iterable[FastLoop]) -> str | None:
    """For status, such as ``2 of 2 engines choose K 0-5 at each step``; None where nothing is pushed."""
    if teaching.cost_model is None:
        return None
    loops = list(fast_loops)
    active = [loop for loop in loops if loop.active]
    ks = [loop.num_speculative_tokens for loop in active if loop.num_speculative_tokens is not None]
    text = f"{len(active)} of {len(loops)} engines choose K at each step"
    if ks:
        text += f"; now K {span(min(ks), max(ks))}"
    dropped = next((loop.inactive_detail or loop.inactive_reason for loop in loops if not loop.active), None)
    return text if dropped is None else f"{text}; the others follow the schedule: {dropped}"
