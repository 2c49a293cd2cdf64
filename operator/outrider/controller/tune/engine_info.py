"""Facts that an engine reports once: simulation, CUDA graphs, idle drafter, maximum batch, step times."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from outrider.controller.fleet import EnginePod
from outrider.controller.tune.actuation import PushReport
from outrider.engine.client import EngineClient
from outrider.engine.errors import EngineError
from outrider.engine.state import EngineState, IdleDrafter, StepTime
from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The facts of one pod.

    simulated: the GPU and model that a simulated engine imitates; None for an engine that computes.
    cuda_graphs: vLLM's mode of CUDA graphs; None without any.
    idle_drafter: what its drafter does in decode steps with K=0; None without a drafter, or if unknown.
    max_num_seqs: its maximum batch size; None if unknown.
    launch: the revision that a cost model for it carries; None if it takes no cost model.
    version: vLLM's version; None if unknown.
    """

    pod: str
    revision: str
    simulated: str | None
    cuda_graphs: str | None
    step_times: StepTimeProfile | None
    idle_drafter: str | None = None
    max_num_seqs: int | None = None
    launch: str | None = None
    version: str | None = None


class EngineInfos:
    """Asks each pod until it answered once. Not for concurrent use.

    Of these facts only that about the idle drafter can change, see `with_answers`.
    """

    def __init__(self, engines: EngineClient) -> None:
        self._engines = engines
        self._infos: dict[str, EngineInfo] = {}  # by the UID of a pod

    @property
    def known(self) -> tuple[EngineInfo, ...]:
        """The facts of the pods of the last question, without those that have not answered."""
        return tuple(self._infos.values())

    async def of(self, pods: Sequence[EnginePod]) -> tuple[EngineInfo, ...]:
        """The facts of these pods in their order, without those that have not answered."""
        known = {uid: self._infos[uid] for pod in pods if (uid := pod.address.pod_uid) in self._infos}
        unknown = [pod for pod in pods if pod.address.pod_uid not in known]
        answers = await asyncio.gather(*(self._ask(pod) for pod in unknown))
        self._infos = known | {uid: info for answer in answers for uid, info in answer.items()}
        uids = (pod.address.pod_uid for pod in pods)
        return tuple(self._infos[uid] for uid in uids if uid in self._infos)

    async def _ask(self, pod: EnginePod) -> dict[str, EngineInfo]:
        """The facts by the pod's UID; empty if it does not answer."""
        try:
            state = await self._engines.state(pod.address)
        except EngineError:
            return {}
        info = EngineInfo(
            pod=pod.name,
            revision=pod.revision,
            simulated=state.simulated,
            cuda_graphs=state.cuda_graphs,
            step_times=_map(state.step_times),
            idle_drafter=_idle(state.idle_drafter),
            max_num_seqs=state.max_num_seqs,
            launch=_launch(state),
            version=state.engine_version,
        )
        return {pod.address.pod_uid: info}


def with_answers(infos: Iterable[EngineInfo], push: PushReport | None) -> tuple[EngineInfo, ...]:
    """The facts, with what drafters do by the answers to a push: a fault can end their skip."""
    confirmed = () if push is None else push.confirmed
    now = {one.pod: _idle(one.idle_drafter) for one in confirmed if one.idle_drafter is not None}
    return tuple(replace(one, idle_drafter=now.get(one.pod, one.idle_drafter)) for one in infos)


def each_once(texts: Iterable[str | None]) -> tuple[str, ...]:
    """The distinct texts of several pods, sorted."""
    return tuple(sorted({text for text in texts if text is not None}))


@dataclass(frozen=True, slots=True)
class OtherVersion:
    """A pod whose vLLM is not the release that the spec names."""

    pod: str
    version: str
    wanted: str


def other_versions(pods: Iterable[EnginePod], infos: Iterable[EngineInfo]) -> tuple[OtherVersion, ...]:
    """The pods of the present spec that run another release than it names, by name.

    A suffix such as ``+cu130`` or ``.post1`` makes no other release.
    """
    wanted = {pod.name: pod.wanted_version for pod in pods}
    return tuple(
        OtherVersion(one.pod, one.version, release)
        for one in sorted(infos, key=lambda one: one.pod)
        if one.version is not None and (release := wanted.get(one.pod)) is not None
        if re.match(rf"{re.escape(release)}(?![0-9])", one.version) is None
    )


def batch_of_all(infos: Iterable[EngineInfo]) -> int | None:
    """The maximum batch size that all of them support; None if none reports it."""
    return min((one.max_num_seqs for one in infos if one.max_num_seqs is not None), default=None)


def _idle(drafter: IdleDrafter | None) -> str | None:
    if drafter is None:
        return None
    return "Skipped" if drafter.skipped else f"Runs, because {drafter.reason or 'the engine gives no reason'}"


def _launch(state: EngineState) -> str | None:
    return state.fast_loop.revision if state.fast_loop is not None and state.fast_loop.possible else None


def _map(cells: Sequence[StepTime]) -> StepTimeProfile | None:
    if not cells:
        return None
    return StepTimeProfile(
        tuple(
            MapCell(c.batch_size, c.num_speculative_tokens, c.context_tokens, c.step_seconds, c.error)
            for c in cells
        )
    )
