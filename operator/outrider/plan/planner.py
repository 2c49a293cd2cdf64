"""`plan`: one SpeculativeModel in, its child objects out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from outrider.api.json_object import Json
from outrider.api.launch import Launch, LaunchOrder, effective_order
from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.plan import children
from outrider.plan.canary import CanaryStage, Serving, canary_stage
from outrider.plan.children import Manifest
from outrider.plan.inference_pool import inference_pool
from outrider.plan.kubernetes_release import KubernetesVersion, too_old
from outrider.plan.network_policy import network_policies
from outrider.plan.pod import pod_template
from outrider.plan.settings import ControlKeys, NoPluginImage, PlanSettings
from outrider.plan.target import target_children
from outrider.plan.weights.fit import mismatch
from outrider.plan.weights.job import claim as download_claim
from outrider.plan.weights.job import job as download_job
from outrider.plan.weights.needs import Needs, brought, from_the_volume, needs_of
from outrider.plan.workload import ReplicaPods, workload
from outrider.runtimes import runtime_of
from outrider.runtimes.engine_launch import Role, engine_launch
from outrider.runtimes.runtime import EngineImage

Problem = tuple[DegradedReason, str]

_OWN_ORDER = LaunchOrder()
_NOTHING_SERVES = Serving()


@dataclass(frozen=True, slots=True)
class Plan:
    """The wanted state of one model."""

    children: tuple[Manifest, ...]
    """Child objects in the order in which they are applied; empty when there are problems."""
    revision: str
    """Hash of the pod template, and the value of its revision label; "" when there are problems."""
    problems: tuple[Problem, ...] = ()
    """Why the spec cannot be carried out."""
    canary_revision: str | None = None
    """The same of the canary; None without one."""
    download: Needs | None = None
    """Weights that are to be brought first, by a Job among the children; Deployments stay as they are."""

    @property
    def revisions(self) -> frozenset[str]:
        """Revisions of the pods that are wanted."""
        return frozenset(text for text in (self.revision, self.canary_revision) if text)

    def child(self, kind: str) -> Manifest | None:
        """The first child of this kind; only Deployments are two, where there is a canary."""
        return next((child for child in self.children if child["kind"] == kind), None)


class Rendered:
    """One state of a model with its pods, each launch configuration rendered once. Pure."""

    def __init__(self, model: SpeculativeModel, settings: PlanSettings) -> None:
        self.model = model
        self._settings = settings
        self._settled = model = settled(model)
        self._image = runtime_of(model.spec).image(model.spec.engine, settings.engine_images)
        needs = needs_of(model)
        self._missing = needs if needs is not None and not brought(needs, model.status.weights) else None
        self._pods: dict[tuple[Launch, Role], ReplicaPods] = {}

    def plan(
        self,
        *,
        keys: ControlKeys,
        order: LaunchOrder = _OWN_ORDER,
        serving: Serving = _NOTHING_SERVES,
        kubernetes: KubernetesVersion | None = None,
        trial: bool = False,
    ) -> Plan:
        """The children of the model. See `plan`.

        trial: a canary has the spec's own launch, whatever the tuner orders.
        """
        if self.model.spec.target is not None:
            return Plan(target_children(self.model, keys=keys, static=None), "")
        model, settings = self._settled, self._settings
        problems = _problems(model, image=self._image, kubernetes=kubernetes)
        if problems or self._image is None:
            return Plan((), "", problems)
        if self._missing is not None:
            return _download(model, self._missing, settings=settings, keys=keys, image=self._image)
        model = _with_weights(model)
        order = LaunchOrder(canary=Launch()) if trial else effective_order(model.spec, order)
        stage = canary_stage(model.spec, order, serving)
        absent = stage is CanaryStage.ABSENT
        canary_launch = None if absent else order.canary or serving.canary or Launch(drafter=False)
        try:
            pods = self._rendered(order.launch, Role.REPLICA)
            canary = None if canary_launch is None else self._rendered(canary_launch, Role.CANARY)
        except ValueError as error:
            return Plan((), "", (_problem(error),))
        replicas = model.spec.replicas - (1 if stage is CanaryStage.INSTEAD else 0)
        budget = children.disruption_budget(model)
        manifests = (
            *_beside_pods(model, keys, settings),
            *(() if budget is None else (budget,)),
            workload(model, pods, replicas=replicas),
        )
        if canary is None:
            return Plan(manifests, pods.revision)
        beside = children.canary(model, template=canary.main, revision=canary.revision)
        return Plan((*manifests, beside), pods.revision, canary_revision=canary.revision)

    def revision(self, launch: Launch, role: Role) -> str | None:
        """The revision of pods of this spec with a launch configuration; None if it gives no pods.

        A pod that has it belongs to the present spec, whatever the tuner orders today.
        """
        if self._image is None or self._missing is not None:
            return None
        try:
            return self._rendered(launch, role).revision
        except ValueError:
            return None

    def _rendered(self, launch: Launch, role: Role) -> ReplicaPods:
        """The pods of one replica.

        Raises:
            ValueError: the spec gives no pods.
        """
        known = self._pods.get((launch, role))
        if known is None:
            assert self._image is not None
            model = _with_weights(self._settled)
            known = _pods(model, launch, role, image=self._image, settings=self._settings)
            self._pods[launch, role] = known
        return known


def plan(
    model: SpeculativeModel,
    *,
    settings: PlanSettings,
    keys: ControlKeys,
    order: LaunchOrder = _OWN_ORDER,
    serving: Serving = _NOTHING_SERVES,
    kubernetes: KubernetesVersion | None = None,
) -> Plan:
    """The children of ``model``. Pure: equal arguments give equal plans.

    ``keys``: of the engines' control API; the private one goes into the model's Secret and nowhere else.
    ``order``: what the tuner wants of the launch; what the spec does not allow is ignored.
    ``serving``: what takes traffic now; only a canary depends on it.
    ``kubernetes``: of the cluster; None where it is not known, which passes for new enough.
    """
    return Rendered(model, settings).plan(keys=keys, order=order, serving=serving, kubernetes=kubernetes)


def revision(model: SpeculativeModel, launch: Launch, role: Role, *, settings: PlanSettings) -> str | None:
    """See `Rendered.revision`."""
    return Rendered(model, settings).revision(launch, role)


def settled(model: SpeculativeModel) -> SpeculativeModel:
    """``model`` as its engines can be launched: with one K where they cannot change it after all."""
    spec = runtime_of(model.spec).settled(model.spec, model.status.weights)
    return model if spec is model.spec else model.model_copy(update={"spec": spec})


def _download(
    model: SpeculativeModel, needs: Needs, *, settings: PlanSettings, keys: ControlKeys, image: EngineImage
) -> Plan:
    """What there is before the engines of this spec can start."""
    spec = from_the_volume(model.spec, needs, None)
    mounted = model.model_copy(update={"spec": spec})
    runtime = runtime_of(spec)
    launch = engine_launch(spec, Launch(), Role.REPLICA)
    if launch.stock:
        # Any image of the engine will do for its pods. An operator's image with the plugin has the program.
        unnamed = spec.engine.model_copy(update={"image": None, "plugin": None})
        own = runtime.image(unnamed, settings.engine_images)
        image = own if own is not None and own.has_plugin else image
    try:
        unguarded = replace(settings, control_peers=None)
        template = pod_template(mounted, launch, image=image, settings=unguarded)
        variables = runtime.container(launch, served_name=model.metadata.name).environment.keys()
        plugin = None if image.has_plugin else settings.image_of_plugin()
    except ValueError as error:
        return Plan((), "", (_problem(error),))
    job = download_job(
        model, needs, template=template, image=image.reference, plugin_image=plugin, variables=variables
    )
    return Plan((*_beside_pods(model, keys, settings), job), "", download=needs)


def _beside_pods(model: SpeculativeModel, keys: ControlKeys, settings: PlanSettings) -> tuple[Manifest, ...]:
    claim, peers, pool = download_claim(model), settings.control_peers, inference_pool(model)
    return (
        children.service_account(model),
        # The Secret first: a public key without its stored private one is of no use.
        children.secret(model, keys=keys),
        children.config_map(model, keys=keys),
        children.service(model),
        *(() if peers is None else network_policies(model, peers=peers)),
        *(() if claim is None else (claim,)),
        *(() if pool is None else (pool,)),
    )


def _with_weights(model: SpeculativeModel) -> SpeculativeModel:
    """With downloaded weights in their claim; those of other places stay where they are."""
    needs = needs_of(model)
    if needs is None:
        return model
    spec = from_the_volume(model.spec, needs, model.status.weights)
    return model.model_copy(update={"spec": spec})


def _pods(
    model: SpeculativeModel, launch: Launch, role: Role, *, image: EngineImage, settings: PlanSettings
) -> ReplicaPods:
    def template(role: Role) -> Json:
        return pod_template(model, engine_launch(model.spec, launch, role), image=image, settings=settings)

    several = model.spec.parallelism.nodes > 1
    return ReplicaPods(template(role), template(Role.WORKER) if several else None)


def _problem(error: ValueError) -> Problem:
    reason = DegradedReason.UNSUPPORTED if isinstance(error, NoPluginImage) else DegradedReason.INVALID_SPEC
    return reason, str(error)


def _problems(
    model: SpeculativeModel, *, image: EngineImage | None, kubernetes: KubernetesVersion | None
) -> tuple[Problem, ...]:
    engine = model.spec.engine
    problems: list[Problem] = []
    reason = runtime_of(model.spec).unsupported_reason(model.spec, model.status.weights)
    if reason is not None:
        problems.append((DegradedReason.UNSUPPORTED, reason))
    needs, weights = needs_of(model), model.status.weights
    if needs is not None and weights is not None and brought(needs, weights):
        unfit = mismatch(model.spec.speculation, weights)
        if unfit is not None:
            problems.append((DegradedReason.DRAFTER_MISMATCH, unfit))
    old = too_old(model.spec, kubernetes)
    if old is not None:
        problems.append((DegradedReason.CLUSTER_TOO_OLD, old))
    if image is None:
        message = (
            f"the operator has no image of {engine.runtime} {engine.version} with Outrider's plugin; set "
            "spec.engine.image, or leave spec.engine.plugin out"
        )
        problems.append((DegradedReason.UNSUPPORTED, message))
    return tuple(problems)
