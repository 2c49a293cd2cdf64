"""Every reason of a condition is really given, by what is in the cluster or in the measurements."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from inspect import isawaitable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest

from outrider.api.annotations import Instructions, Override
from outrider.api.conditions import ConditionStatus, ConditionType, ConditionUpdate, conditions_of
from outrider.api.launch import DrafterTrial, Launch, LaunchOrder, TrialStage
from outrider.api.reasons import (
    ActuationReason,
    AdviceReason,
    ConditionReason,
    DegradedReason,
    DrafterReason,
    EffectiveReason,
    LaunchReason,
    MetricsReason,
    ProgressingReason,
    ReadyReason,
    SLOReason,
    TuningReason,
)
from outrider.api.tuning import TuningMode
from outrider.cluster.errors import Unavailable, from_status
from outrider.cluster.resources import CONFIG_MAPS, DEPLOYMENTS, INFERENCE_POOLS, SERVICES
from outrider.controller.reconcile.readiness import Workload, judge
from outrider.controller.reconcile.target_pods import KEY_PATIENCE
from outrider.controller.tune.actuation import Confirmed, Failed, PushReport
from outrider.controller.tune.conditions import statements
from outrider.controller.tune.engine_info import OtherVersion
from outrider.controller.tune.outcome import EngineSummary
from outrider.controller.tune.permission import PermissionInput, permission
from outrider.controller.tune.report import TunerReport, failing
from outrider.engine.errors import EngineError, EngineUnreachable, LiveTuningImpossible, PushRefused
from outrider.plan.names import MODEL_LABEL
from outrider.runtimes.vllm import metrics as names
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.pod_scrape import PodScrapeSource, Target
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.series import PodKey, PodMetrics, Unreadable
from outrider.telemetry.source import MetricsError, MetricsSource
from outrider.telemetry.windows import build_window
from outrider.tuning.latency_targets import LatencyTarget, LatencyTargets, RecentLatencies
from outrider.tuning.observe.latencies import Latencies
from outrider.tuning.relaunch.state import RelaunchState
from outrider_protocol.schedule import Schedule
from tests.unit.controller.factories import (
    INCOMPLETE,
    NO_ACCOUNT,
    NO_KEY,
    NOT_ADAPTIVE,
    NOT_FOUND,
    NOW,
    TWO_NODES,
    a_launch_order,
    a_pod,
    a_raw_model,
    a_workload,
    stuck_setup,
    unscheduled,
)
from tests.unit.controller.place import (
    TARGET,
    TOO_LARGE,
    Place,
    a_decode_side,
    a_failed_rollout,
    a_model_that_serves,
    a_prefill_side,
    begun,
)
from tests.unit.controller.target_place import APP, TargetPlace
from tests.unit.controller.trial_place import Trial, with_drafter
from tests.unit.reasons.tuner_scenes import LONG_ANSWERS, MODEL, a_launch, an_outcome, reasons, told
from tests.unit.telemetry.factories import Counters, a_series, a_server, answering
from tests.unit.tuning.factories import a_window
from tests.unit.tuning.launching import ALLOW, AUTO, CANARY, HOUR, KEEP, OFF, ON, RECOMMEND, Plant, a_decision
from tests.unit.tuning_loop.factories import NOW as UNIX_NOW

Found = list[ConditionReason]
Scene = Callable[[], Found | Awaitable[Found]]
A_POD = PodKey("default", "m-1")
RAN = Counters().ran()


def of(workload: Workload) -> Found:
    return reasons(judge(workload, NOW))


async def after(place: Place, *, passes: int = 1) -> Found:
    """What the status of the model says."""
    await place.passes(passes)
    return stored(place)


def stored(place: Place) -> Found:
    said = [(ConditionType(kind).reasons, reason) for kind, reason in place.conditions.items()]  # type: ignore[call-arg]
    return [known for reasons_of, reason in said for known in reasons_of if known == reason]


async def failing_thrice() -> Found:
    place = Place()
    await place.fails(Unavailable("etcd is away"), times=3)
    return stored(place)


async def refused() -> Found:
    place = Place()
    place.cluster.fails = from_status(422, "no such field", retry_after=None)
    return await after(place)


async def without_image_volumes() -> Found:
    place = Place(a_raw_model(model={"uri": "oci://ghcr.io/a/b:1"}))
    place.cluster.kubernetes = (1, 30)
    return await after(place)


async def without_groups() -> Found:
    return await after(Place(a_raw_model(**TWO_NODES)))


async def downloading(reason: DegradedReason | None = None) -> Found:
    place = await begun()
    words = json.dumps({"reason": reason, "message": "why"})
    await place.downloads(**({} if reason is None else {"ended": (1, words), "restarts": 1}))
    return stored(place)


async def unfit_drafter() -> Found:
    speculation = {"method": "eagle3", "numSpeculativeTokens": 3, "drafter": {"uri": "hf://org/drafter"}}
    place = await begun(speculation=speculation)
    await place.downloads(done={"model": TARGET, "drafter": {**TARGET, "hiddenSize": 1}})
    return await after(place)


async def unlike_its_peer() -> Found:
    place = a_decode_side()
    place.store.models.put(a_prefill_side(numSpeculativeTokens=7))
    return await after(place)


async def without_pools() -> Found:
    return await after(Place(a_raw_model(**A_POOL)))


async def without_a_picker() -> Found:
    place = Place(a_raw_model(**A_POOL))
    place.cluster.add_ons.add(INFERENCE_POOLS)
    return await after(place)


async def unaccepted_pool() -> Found:
    place = Place(a_raw_model(**A_POOL))
    place.cluster.add_ons.add(INFERENCE_POOLS)
    place.cluster.objects[SERVICES.path("default", "epp")] = {"metadata": {"name": "epp"}}
    await place.passes()
    parent = {"conditions": [{"type": "Accepted", "status": "False", "reason": "NotSupportedByParent"}]}
    place.cluster.objects[INFERENCE_POOLS.path("default", "m")] |= {"status": {"parents": [parent]}}
    return await after(place)


async def taken() -> Found:
    place = Place()
    metadata = {"name": "m", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    foreign = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {}}
    place.cluster.objects[DEPLOYMENTS.path("default", "m")] = foreign
    return await after(place)


async def unreadable_order() -> Found:
    place = Place(a_raw_model(uid="uid-m"))
    place.store.children[CONFIG_MAPS].put(a_launch_order("nonsense"))
    return await after(place)


async def rolled_back() -> Found:
    return stored((await a_failed_rollout()).place)


async def kept_out() -> Found:
    trial = Trial(await a_model_that_serves(speculation=with_drafter("old")))
    await trial.begin()
    await trial.judged(promoted=False, why="It is slower.")
    return stored(trial.place)


async def not_tuned() -> Found:
    with patch("outrider.controller.policy_from_spec.policy_from_spec", side_effect=OverflowError("a date")):
        return await after(Place())


def of_target(change: Callable[[TargetPlace], object], *, wait: float = 0.0, **target: Any) -> Scene:
    """A target whose pods are changed, some seconds after its key was made."""

    async def scene() -> Found:
        with TemporaryDirectory() as folder:
            place = TargetPlace(Path(folder), **target)
            change(place)
            await place.passes()
            place.waits(wait)
            await place.passes()
        said = [(ConditionType(kind).reasons, reason) for kind, reason in place.conditions().items()]  # type: ignore[call-arg]
        return [known for reasons_of, reason in said for known in reasons_of if known == reason]

    return scene


def taken_by_an_older(place: TargetPlace) -> None:
    labels = {**APP, MODEL_LABEL: "own", "app.kubernetes.io/managed-by": "outrider"}
    place.has_pod(labels=labels, names=None)


def of_two_launches(place: TargetPlace) -> None:
    place.has_pod("llm-1")
    place.has_pod("llm-2", state={"method": "mtp"})


def unreadable(place: TargetPlace) -> None:
    place.cluster.refuses = from_status(403, "cannot get", retry_after=None)


A_POOL: dict[str, Any] = {"inferencePool": {"endpointPicker": {"service": "epp"}}}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}

RECONCILE: Sequence[tuple[ConditionReason, Scene]] = (
    (ReadyReason.SERVING, lambda: of(a_workload(a_pod(ready=True)))),
    (ReadyReason.PARTIALLY_SERVING, lambda: of(a_workload(a_pod("m-1", ready=True), a_pod("m-2"), wanted=2))),
    (ReadyReason.ROLLING_OUT, lambda: of(a_workload(a_pod()))),
    (ReadyReason.ROLLED_BACK, rolled_back),
    (ReadyReason.SCALED_TO_ZERO, lambda: of(a_workload(wanted=0))),
    (ProgressingReason.ROLLING_OUT, lambda: of(a_workload(a_pod()))),
    (ProgressingReason.COMPLETE, lambda: of(a_workload(a_pod(ready=True)))),
    (ProgressingReason.DEADLINE_EXCEEDED, lambda: of(a_workload(a_pod(), stuck=True))),
    (DegradedReason.MODEL_NOT_FOUND, lambda: of(a_workload(a_pod(ended=(78, NOT_FOUND))))),
    (
        DegradedReason.ENGINE_IMAGE_INCOMPLETE,
        lambda: of(a_workload(a_pod(ended=(78, INCOMPLETE)))),
    ),
    (
        DegradedReason.VERIFICATION_UNAVAILABLE,
        lambda: of(a_workload(a_pod(ended=(78, NOT_ADAPTIVE)))),
    ),
    (
        DegradedReason.IMAGE_PULL_FAILED,
        lambda: of(a_workload(a_pod(waiting=("ErrImagePull", "no engine:9")))),
    ),
    (
        DegradedReason.CONTAINER_NOT_CREATED,
        lambda: of(a_workload(a_pod(waiting=("CreateContainerConfigError", NO_KEY)))),
    ),
    (DegradedReason.UNSCHEDULABLE, lambda: of(a_workload(a_pod(conditions=unscheduled("0/1 nodes"))))),
    (DegradedReason.VOLUME_NOT_READY, lambda: of(a_workload(a_pod(conditions=stuck_setup(91))))),
    (DegradedReason.ENGINE_CRASHING, lambda: of(a_workload(a_pod(ended=(1, "boom"), restarts=2)))),
    (DegradedReason.PODS_NOT_CREATED, lambda: of(a_workload(refused=NO_ACCOUNT))),
    (DegradedReason.DEADLINE_EXCEEDED, lambda: of(a_workload(a_pod(), stuck=True))),
    (DegradedReason.INVALID_SPEC, lambda: after(Place(a_raw_model(replicas="three")))),
    (DegradedReason.UNSUPPORTED, lambda: after(Place(a_raw_model(engine={"version": "0.25.0"})))),
    (DegradedReason.CLUSTER_TOO_OLD, without_image_volumes),
    (DegradedReason.LEADER_WORKER_SET_MISSING, without_groups),
    (ProgressingReason.DOWNLOADING, downloading),
    (DegradedReason.WEIGHTS_NOT_FOUND, lambda: downloading(DegradedReason.WEIGHTS_NOT_FOUND)),
    (DegradedReason.WEIGHTS_REFUSED, lambda: downloading(DegradedReason.WEIGHTS_REFUSED)),
    (DegradedReason.VOLUME_FULL, lambda: downloading(DegradedReason.VOLUME_FULL)),
    (DegradedReason.CHECKSUM_MISMATCH, lambda: downloading(DegradedReason.CHECKSUM_MISMATCH)),
    (DegradedReason.DOWNLOAD_FAILED, lambda: downloading(DegradedReason.DOWNLOAD_FAILED)),
    (DegradedReason.DRAFTER_MISMATCH, unfit_drafter),
    (DegradedReason.TRANSFER_PEER_DIFFERS, unlike_its_peer),
    (DegradedReason.INFERENCE_POOL_MISSING, without_pools),
    (DegradedReason.ENDPOINT_PICKER_MISSING, without_a_picker),
    (DegradedReason.INFERENCE_POOL_NOT_ACCEPTED, unaccepted_pool),
    (DegradedReason.WILL_NOT_FIT, lambda: after(Place(a_raw_model(**TOO_LARGE)))),
    (DegradedReason.NAME_TAKEN, taken),
    (DegradedReason.APPLY_REFUSED, refused),
    (DegradedReason.RECONCILE_FAILED, failing_thrice),
    (ProgressingReason.IN_PLACE, lambda: of(replace(a_workload(a_pod()), in_place=True))),
    (ProgressingReason.COMPARING_DRAFTERS, lambda: of(replace(a_workload(a_pod()), trial=True))),
    (DegradedReason.ROLLED_BACK, rolled_back),
    (DegradedReason.DRAFTER_SLOWER, kept_out),
    (DegradedReason.LAUNCH_ORDER_UNREADABLE, unreadable_order),
    (DegradedReason.NOT_TUNED, not_tuned),
    (DegradedReason.NO_POD_MATCHES, of_target(lambda _: None)),
    (DegradedReason.TARGET_NOT_FOUND, of_target(lambda _: None, workload=DEPLOYMENT)),
    (DegradedReason.TARGET_NOT_READABLE, of_target(unreadable, workload=DEPLOYMENT)),
    (DegradedReason.SELECTED_TWICE, of_target(taken_by_an_older)),
    (DegradedReason.PLUGIN_MISSING, of_target(lambda place: place.has_pod(plugin=False))),
    (ProgressingReason.WAITING_FOR_KEY, of_target(lambda place: place.has_pod(key_of="other"))),
    (
        DegradedReason.KEY_MISMATCH,
        of_target(lambda place: place.has_pod(key_of="other"), wait=KEY_PATIENCE.total_seconds() + 1),
    ),
    (DegradedReason.TARGET_UNREACHABLE, of_target(lambda place: place.has_pod(silent=True))),
    (DegradedReason.LAUNCHES_DIFFER, of_target(of_two_launches)),
    (
        AdviceReason.PLUGIN_DIFFERS,
        of_target(lambda place: place.has_pod(state={"pluginVersion": "0.0.9"})),
    ),
    (
        AdviceReason.LAUNCH_AFFECTED,
        lambda: after(Place(a_raw_model(engine={"args": {"enable-lora": True}}))),
    ),
)


async def out_of(source: MetricsSource) -> Found:
    with pytest.raises(MetricsError) as caught:
        await source.fetch(60)
    return told(an_outcome(error=caught.value, observations=()))


async def nobody_listens() -> Found:
    return await out_of(PrometheusSource(PrometheusSettings(url="http://127.0.0.1:1", timeout_seconds=1.0)))


async def no_result() -> Found:
    with a_server(answering(b"no", status=500)) as url:
        return await out_of(PrometheusSource(PrometheusSettings(url=url, timeout_seconds=5.0)))


async def no_engine_answers() -> Found:
    async with PodScrapeSource(lambda: [Target(A_POD, "http://127.0.0.1:1")]) as source:
        return await out_of(source)


def measured(series: PodMetrics | None, *, until: float = 10.0) -> Found:
    measured = {} if series is None else {A_POD: series}
    window = build_window(
        A_POD, measured.get(A_POD), dialect=DIALECT, since=0.0, until=until, max_age_seconds=15.0
    )
    return told(an_outcome(observations=(window,)))


def pushed(*errors: EngineError | None) -> Found:
    outcomes = [
        Confirmed(f"m-{index}", "boot", UNIX_NOW) if error is None else Failed(f"m-{index}", error)
        for index, error in enumerate(errors)
    ]
    return told(an_outcome(push=PushReport(1, tuple(outcomes))))


def ruled(mode: TuningMode = TuningMode.AUTO, *, settled_at: float = 0.0, **said: Any) -> Found:
    model = replace(MODEL, mode=mode, instructions=Instructions(**said))
    rule = permission(PermissionInput(model.instructions, mode, UNIX_NOW, settled_at))
    return told(an_outcome(model=model, permission=rule))


def returned() -> Found:
    """While the table of the last good revision rules."""
    rule = permission(
        PermissionInput(MODEL.instructions, TuningMode.AUTO, UNIX_NOW, 0.0, Schedule.constant(1))
    )
    return told(an_outcome(permission=rule))


def an_override(*, seconds: float) -> Override:
    return Override(Schedule.constant(1), datetime.fromtimestamp(UNIX_NOW + seconds, UTC))


def launched(plant: Plant, *, spent: float, decision: Any) -> Found:
    plant.spend(spent, decision)
    return told(a_launch(plant.verdicts[-1]))


def a_bare_plant(*, since: float) -> Plant:
    state = RelaunchState().adopting(LaunchOrder(Launch(drafter=False)), now=0.0)
    return Plant(ALLOW, state=state, running=Launch(drafter=False), now=since)


def a_stuck_plant() -> Plant:
    plant = Plant(ALLOW, stuck=True)
    plant.until_relaunched(OFF)
    return plant


def a_refusing_plant() -> Plant:
    """Its canary, ordered in the first tick, ends because vLLM cannot verify adaptively."""
    plant = Plant(AUTO, replicas=2, canary_serves=False, adaptive_refusal="FLASH_ATTN_2 cannot.")
    plant.tick(KEEP)
    return plant


def promised(*, pause: tuple[float, ...] = (), first: tuple[float, ...] = (), limit: float = 0.05) -> Found:
    """With a target of each latency that has counts. The edges are 25, 50 and 100 ms."""
    target = LatencyTarget(90, limit)
    targets = LatencyTargets(target if pause else None, target if first else None)
    edges = (0.025, 0.05, 0.1)
    window = replace(
        a_window(),
        latencies=Latencies(edges, pause) if len(pause) > 1 else None,
        first_token_latencies=Latencies(edges, first) if first else None,
    )
    outcome = an_outcome(model=replace(MODEL, targets=targets))
    return told(outcome, latencies=RecentLatencies().after([window], UNIX_NOW))


SETTLED = a_decision()
OFF_NOW = a_decision(table=Schedule.constant(0))

TUNE: Sequence[tuple[ConditionReason, Scene]] = (
    (ReadyReason.BLOCKED, lambda: after(Place(a_raw_model(replicas="three")))),
    (ProgressingReason.BLOCKED, lambda: after(Place(a_raw_model(replicas="three")))),
    (MetricsReason.FRESH, lambda: measured(a_series((2.0, Counters()), (6.0, RAN)))),
    (MetricsReason.PROMETHEUS_UNREACHABLE, nobody_listens),
    (MetricsReason.PROMETHEUS_ERROR, no_result),
    (MetricsReason.ENGINES_UNREACHABLE, no_engine_answers),
    (MetricsReason.NO_SERIES, lambda: measured(None)),
    (MetricsReason.STALE, lambda: measured(a_series((2.0, Counters()), (6.0, RAN)), until=60.0)),
    (MetricsReason.COUNTER_RESET, lambda: measured(a_series((2.0, RAN), (6.0, Counters())))),
    (
        MetricsReason.CONTRADICTORY,
        lambda: measured(a_series((2.0, Counters({**RAN.values, names.DRAFTS: -1.0})), (6.0, RAN))),
    ),
    (MetricsReason.UNREADABLE, lambda: measured(Unreadable("shows far too much"))),
    (EffectiveReason.FASTER, lambda: told(an_outcome(decision=SETTLED), speedup=(1.1, 1.3))),
    (EffectiveReason.WITHIN_NOISE, lambda: told(an_outcome(decision=SETTLED), speedup=(0.9, 1.1))),
    (EffectiveReason.SLOWER, lambda: told(an_outcome(decision=SETTLED), speedup=(0.7, 0.9))),
    (EffectiveReason.SOFT_OFF, lambda: told(an_outcome(decision=OFF_NOW, wanted=Schedule.constant(0)))),
    (ActuationReason.CONVERGED, lambda: pushed(None, None)),
    (ActuationReason.PARTIALLY_APPLIED, lambda: pushed(None, PushRefused("Busy", "not now"))),
    (ActuationReason.ENGINE_UNREACHABLE, lambda: pushed(EngineUnreachable("timeout"))),
    (ActuationReason.LIVE_TUNING_IMPOSSIBLE, lambda: pushed(LiveTuningImpossible("NoHook", "no such hook"))),
    (DrafterReason.EXCELLENT, lambda: told(an_outcome(), rate=0.8)),
    (DrafterReason.GOOD, lambda: told(an_outcome(), rate=0.6)),
    (DrafterReason.MARGINAL, lambda: told(an_outcome(), rate=0.4)),
    (DrafterReason.POOR, lambda: told(an_outcome(), rate=0.39)),
    (DrafterReason.NOTHING_ACCEPTED, lambda: told(an_outcome(), rate=0.02)),
    (
        DrafterReason.COLLAPSED,
        lambda: told(an_outcome(decision=replace(SETTLED, acceptance_collapsed=True)), rate=0.1),
    ),
    (TuningReason.TUNING, ruled),
    (TuningReason.OBSERVING, lambda: ruled(TuningMode.OBSERVE)),
    (TuningReason.PAUSED, lambda: ruled(paused=True)),
    (TuningReason.OVERRIDDEN, lambda: ruled(override=an_override(seconds=60))),
    (TuningReason.OVERRIDE_EXPIRED, lambda: ruled(override=an_override(seconds=-60))),
    (TuningReason.ROLLED_BACK, returned),
    (TuningReason.SETTLING, lambda: ruled(settled_at=UNIX_NOW + 30)),
    (TuningReason.ANNOTATION_REFUSED, lambda: ruled(refused="no table")),
    (
        TuningReason.INTERNAL_ERROR,
        lambda: [
            TuningReason(condition.reason)  # type: ignore[call-arg]
            for condition in failing(MODEL, RuntimeError("a defect"), TunerReport(), now=UNIX_NOW).conditions
        ],
    ),
    (LaunchReason.NO_BETTER_LAUNCH, lambda: launched(Plant(ALLOW), spent=1.0, decision=KEEP)),
    (
        LaunchReason.VERSION_DIFFERS,
        lambda: told(an_outcome(engines=EngineSummary(other_versions=(OtherVersion("m-1", "1", "2"),)))),
    ),
    (LaunchReason.DRAFTER_IDLE, lambda: launched(Plant(RECOMMEND), spent=1.0, decision=OFF)),
    (LaunchReason.DRAFTER_WOULD_PAY, lambda: launched(a_bare_plant(since=2 * HOUR), spent=1.0, decision=ON)),
    (LaunchReason.RELAUNCHING, lambda: launched(a_stuck_plant(), spent=1.0, decision=OFF)),
    (LaunchReason.RELAUNCH_POSTPONED, lambda: launched(a_bare_plant(since=60.0), spent=1.0, decision=ON)),
    (
        LaunchReason.RELAUNCH_ROLLED_BACK,
        lambda: launched(a_stuck_plant(), spent=ALLOW.deadline_seconds + 60.0, decision=None),
    ),
    (LaunchReason.CANARY_RUNNING, lambda: launched(Plant(CANARY, replicas=2), spent=1.0, decision=KEEP)),
    (LaunchReason.NOT_COMPARED, lambda: launched(Plant(AUTO), spent=1.0, decision=KEEP)),
    (
        LaunchReason.DRAFTER_KEPT,
        lambda: launched(
            Plant(CANARY, replicas=2, trial=DrafterTrial("s2", TrialStage.RETURNED)), spent=1.0, decision=KEEP
        ),
    ),
    (LaunchReason.ADAPTIVE_UNAVAILABLE, lambda: launched(a_refusing_plant(), spent=60.0, decision=KEEP)),
    (SLOReason.KEPT, lambda: promised(pause=(95, 5, 0, 0), first=(20, 0, 0, 0))),
    (SLOReason.INTER_TOKEN_LATENCY, lambda: promised(pause=(0, 50, 50, 0), first=(0, 0, 0, 20))),
    (SLOReason.TIME_TO_FIRST_TOKEN, lambda: promised(pause=(95, 5, 0, 0), first=(0, 0, 0, 20))),
    (SLOReason.BETWEEN_EDGES, lambda: promised(pause=(50, 50, 0, 0), limit=0.04)),
    (SLOReason.TOO_FEW, lambda: promised(first=(3, 0, 0, 0))),
    (SLOReason.NO_HISTOGRAM, lambda: promised(pause=(1,))),
)

SCENES = (*RECONCILE, *TUNE)
REASONS = [pytest.param(reason, id=f"{kind}.{reason}") for kind in ConditionType for reason in kind.reasons]


@pytest.mark.parametrize("reason", REASONS)
async def test_it_is_given(reason: ConditionReason) -> None:
    scene = next((scene for known, scene in SCENES if known is reason), None)
    assert scene is not None, f"add a scene of {reason!r} to {__file__}"
    found = scene()
    given = await found if isawaitable(found) else found
    assert any(each is reason for each in given), given


def test_a_reason_that_only_another_version_gives_is_not_said_again() -> None:
    silent = an_outcome(observations=())
    (known,) = conditions_of(
        [ConditionUpdate(ConditionStatus.FALSE, MetricsReason.STALE, "old")], before=(), generation=1, now=NOW
    )
    unknown = known.model_copy(update={"reason": "MetricsOdd"})
    assert MetricsReason.STALE in told(silent, before=(known,))
    assert told(silent, before=(unknown,)) == [TuningReason.TUNING]


@pytest.mark.parametrize(
    ("series", "until", "said"),
    [(None, 10.0, True), (a_series((2.0, Counters()), (6.0, RAN)), 60.0, False)],
    ids=["never scraped", "stale"],
)
def test_a_pod_that_is_never_scraped_is_named_with_what_to_do(
    series: PodMetrics | None, until: float, said: bool
) -> None:
    window = build_window(A_POD, series, dialect=DIALECT, since=0.0, until=until, max_age_seconds=15.0)
    outcome = an_outcome(observations=(window,))
    found = statements(
        outcome,
        before=(),
        latencies=RecentLatencies(),
        acceptance=None,
        answers=LONG_ANSWERS,
        speedup=None,
    )
    (message,) = (each.message for each in found if isinstance(each.reason, MetricsReason))

    assert message.startswith(f"Outrider keeps the schedule: {A_POD}: ")
    assert ("schedule of the whole model" in message and "or delete the pod" in message) is said
