"""The tuned models, from the store and without API calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from operator import is_

from outrider.api.annotations import read_instructions
from outrider.api.engine_args import moves_cache
from outrider.api.launch import DrafterTrial, Launch, LaunchOrder, RelaunchPolicy, TrialStage
from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec
from outrider.api.target import Target
from outrider.api.tuning import Actuation
from outrider.cluster.objects import Metadata, Pod
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import CONFIG_MAPS, DEPLOYMENTS
from outrider.controller.fleet import EnginePod, TunedModel, engine_address
from outrider.controller.launch_orders import read_order, trial_refusal
from outrider.controller.policy_from_spec import latency_targets, limited, policy_from_spec
from outrider.controller.store import Reconciled, Store
from outrider.controller.stored import Key, StoredModel, key_of, launch_config_map
from outrider.engine.client import EngineAddress
from outrider.engine.signing import SigningKey
from outrider.plan import settled
from outrider.plan.names import CANARY, CONTAINER, PORT_NAME, REVISION_LABEL, ROLE_LABEL
from outrider.plan.rollout import Memory
from outrider.runtimes import runtime_of
from outrider.runtimes.control import EngineControl
from outrider_protocol.methods import TRAITS
from outrider_protocol.schedule import Schedule

log = logging.getLogger(__name__)

_REVISION_LABELS = ("pod-template-hash", "leaderworkerset.sigs.k8s.io/template-revision-hash")
"""Labels that a Deployment or a LeaderWorkerSet sets on its pods, with another value per template."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The result for one model, and the stored objects that it depends on."""

    rests_on: tuple[object, ...]
    tuned: TunedModel | None


class StoreFleet:
    """`Fleet` over the store. It computes a model again only if one of its stored objects changed.

    manages: whether this process manages a model.
    """

    def __init__(self, store: Store, manages: Callable[[Key], bool] = lambda _: True) -> None:
        self._store = store
        self._manages = manages
        self._failing: dict[Key, str] = {}
        self._known: dict[Key, _Known] = {}

    def present(self) -> list[Key]:
        """See `Fleet.present`."""
        present = sorted(key_of(stored.metadata) for stored in self._store.models)
        for gone in (self._known.keys() | self._failing.keys()) - set(present):
            self._known.pop(gone, None)
            self._failing.pop(gone, None)
        return present

    def tuned_models(self) -> list[TunedModel]:
        """Every valid, reconciled model whose engines can change K, live or by a restart, by name.

        A model that cannot be tuned is left out; the reconciler reports it in the status.
        """
        return [tuned for key in self.present() if (tuned := self.tuned_model(key)) is not None]

    def tuned_model(self, key: Key) -> TunedModel | None:
        """See `Fleet.tuned_model`."""
        stored = self._store.models.get(key)
        if stored is None or not self._manages(key):
            return None
        rests_on, known = self._rests_on(key, stored), self._known.get(key)
        if known is None or not _same(known.rests_on, rests_on):
            known = self._known[key] = _Known(rests_on, self._tuned_or_logged(stored))
        return known.tuned

    def _rests_on(self, key: Key, stored: StoredModel) -> tuple[object, ...]:
        """Everything of the store that `tuned` reads."""
        store = self._store
        return (
            stored,
            store.reconciled.get(key),
            store.targets.get(key),
            store.children[DEPLOYMENTS].get(key),
            store.children[CONFIG_MAPS].get(Key(key.namespace, launch_config_map(key.name))),
            *store.pods.of_model(key),
        )

    def before_its_reconcile(self, key: Key, signing_key: SigningKey) -> TunedModel | None:
        """A model by its stored objects alone, for a push before this process has reconciled it.

        signing_key: of the model. None also for a target, whose pods only a reconcile finds.
        """
        stored = self._store.models.get(key)
        if stored is None or not self._manages(key):
            return None
        return self._tuned_or_logged(stored, Reconciled(signing_key))

    def _tuned_or_logged(
        self, stored: StoredModel, reconciled: Reconciled | None = None
    ) -> TunedModel | None:
        key = key_of(stored.metadata)
        try:
            tuned = self.tuned(stored, reconciled)
        except Exception as error:  # noqa: BLE001 - an error in one model must not keep the others from being tuned
            cause = f"{type(error).__name__}: {error}"
            if self._failing.get(key) != cause:
                log.warning("%s is not tuned: %s", key, cause)
            self._failing[key] = cause
            return None
        self._failing.pop(key, None)
        return tuned

    def tuned(self, stored: StoredModel, reconciled: Reconciled | None = None) -> TunedModel | None:
        """One model for the tuning loop; None if there is nothing to tune, or not yet.

        reconciled: by default the result of its last reconcile.

        Raises:
            ValueError: the tuner cannot work with the spec.
        """
        metadata, key = stored.metadata, key_of(stored.metadata)
        reconciled = reconciled or self._store.reconciled.get(key)
        deleted = metadata.deletion_timestamp is not None
        if stored.model is None or reconciled is None or deleted:
            return None
        target = stored.model.spec.target
        if target is not None:
            return self._tuned_target(stored.metadata, stored.model, target)
        model = settled(stored.model)
        spec, runtime = model.spec, runtime_of(model.spec)
        if not spec.live:
            return None
        policy = policy_from_spec(spec)
        memory = self._memory(key)
        returned_table = _returned_table(memory, spec)
        wanted = _WantedVersion(spec.engine.version, reconciled.revisions if returned_table is None else ())
        engines = self._engine_pods(key, reconciled.key, wanted, before_trial=memory.before_trial)
        return TunedModel(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            generation=metadata.generation,
            mode=spec.tuning_mode,
            static=spec.static_schedule(),
            policy=policy,
            status=model.status,
            metrics=runtime.metrics,
            control=runtime.control(spec),
            max_num_seqs=runtime.max_num_seqs(spec.engine.args),
            max_num_batched_tokens=runtime.max_num_batched_tokens(spec.engine.args),
            instructions=read_instructions(
                metadata.annotations,
                candidates=policy.candidates,
                actuation=spec.speculation.tuning.actuation,
            ),
            pods=tuple(pod for pod, ready in engines if ready),
            starting_pods=tuple(pod for pod, ready in engines if not ready),
            targets=latency_targets(spec),
            replicas=spec.replicas,
            ranks=spec.parallelism.data,
            relaunching=RelaunchPolicy.of(spec),
            moves_cache=moves_cache(spec.engine.args),
            searches_text=TRAITS[spec.speculation.method].searches_text,
            stored_order=self._order(Owner(metadata.namespace, metadata.name, metadata.uid)),
            adaptive_refusal=_adaptive_refusal(self._store.pods_of(key)),
            always_adaptive=spec.speculation.verifies_adaptively,
            trial=_trial(memory, spec),
            returned_table=returned_table,
        )

    def _tuned_target(self, metadata: Metadata, model: SpeculativeModel, target: Target) -> TunedModel | None:
        """A target, by what its engines reported; None while none of them can be tuned."""
        pods = self._store.targets.get(key_of(metadata))
        if pods is None or pods.launch is None or pods.static is None:
            return None
        runtime, launch = runtime_of(model.spec), pods.launch
        targets = latency_targets(model.spec)
        control = EngineControl(
            reads_state=True,
            live_schedule=True,
            probes=True,
            cost_model=True,
            skips_idle_drafter=launch.skips_idle_drafter,
        )
        return TunedModel(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            generation=metadata.generation,
            mode=target.tuning.mode,
            static=pods.static,
            policy=limited(launch.policy, targets),
            status=model.status,
            metrics=runtime.metrics,
            control=control,
            max_num_seqs=launch.max_num_seqs,
            instructions=read_instructions(
                metadata.annotations, candidates=launch.candidates, actuation=Actuation.LIVE
            ),
            pods=pods.ready,
            starting_pods=pods.starting,
            targets=targets,
            replicas=len(pods.ready),
            searches_text=launch.searches_text,
        )

    def _engine_pods(
        self, model: Key, key: SigningKey, wanted: _WantedVersion, *, before_trial: str
    ) -> list[tuple[EnginePod, bool]]:
        """The pods that are not being deleted, and whether they are ready.

        before_trial: see `Memory`.
        """
        staying = (pod for pod in self._store.pods_of(model) if pod.metadata.deletion_timestamp is None)
        addresses = (
            (pod, engine_address(pod, key, port=pod.port(CONTAINER, PORT_NAME), container=CONTAINER))
            for pod in staying
        )
        return [
            (_engine_pod(pod, address, wanted.of(pod), before_trial), pod.ready)
            for pod, address in addresses
            if address is not None
        ]

    def _memory(self, model: Key) -> Memory:
        """What the reconciler remembers of the rollouts of a model."""
        deployment = self._store.children[DEPLOYMENTS].get(model)
        return Memory() if deployment is None else Memory.of(deployment.metadata.annotations)

    def _order(self, model: Owner) -> LaunchOrder:
        try:
            return read_order(self._store, model)
        except ValueError:
            return LaunchOrder()  # the reconciler reports it in Degraded


def _same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return len(before) == len(now) and all(map(is_, before, now))


@dataclass(frozen=True, slots=True)
class _WantedVersion:
    """The release of vLLM in the spec, and the revisions of the pods that are launched by it."""

    version: str
    revisions: Collection[str]

    def of(self, pod: Pod) -> str | None:
        """The release that a pod should have; None for a pod that a rollout replaces."""
        return self.version if pod.metadata.labels.get(REVISION_LABEL) in self.revisions else None


def _returned_table(memory: Memory, spec: Spec) -> Schedule | None:
    """The static schedule of the restored revision, or the spec's if unknown; None without a rollback.

    After a trial the revision differs from the spec in the drafter alone, so it is tuned as the spec says.
    """
    if memory.returned is None or memory.before_trial:
        return None
    return memory.returned_table or spec.static_schedule()


def _trial(memory: Memory, spec: Spec) -> DrafterTrial | None:
    drafter = spec.speculation.drafter
    name = "" if drafter is None else "@".join(filter(None, (drafter.uri, drafter.revision)))
    if memory.trial is not None:
        stage = TrialStage.PROMOTED if memory.trial.promoted else TrialStage.COMPARING
        return DrafterTrial(memory.trial.spec, stage, name)
    if memory.failed is None or not memory.before_trial:
        return None
    return DrafterTrial(memory.failed.spec, TrialStage.RETURNED, name, memory.failed.message)


def _engine_pod(pod: Pod, address: EngineAddress, wanted_version: str | None, before_trial: str) -> EnginePod:
    labels = pod.metadata.labels
    revision = next(filter(None, (labels.get(label) for label in _REVISION_LABELS)), "")
    return EnginePod(
        pod.metadata.name,
        address,
        launch=_launch_of(pod),
        canary=labels.get(ROLE_LABEL) == CANARY,
        revision=revision,
        wanted_version=wanted_version,
        tried=bool(before_trial) and labels.get(REVISION_LABEL) != before_trial,
    )


def _adaptive_refusal(pods: Iterable[Pod]) -> str:
    """The message of an engine that cannot verify adaptively; "" if there is none."""
    found = (trial_refusal(pod) for pod in pods if pod.metadata.deletion_timestamp is None)
    return next((message for message in found if message), "")


def _launch_of(pod: Pod) -> Launch:
    try:
        return Launch.of_pod(pod.metadata.annotations)
    except ValueError:
        return Launch()  # written by hand
