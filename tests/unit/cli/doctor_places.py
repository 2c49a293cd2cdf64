"""A cluster whose engine pods can start, and changes of it."""

from __future__ import annotations

from dataclasses import replace

from outrider.cli.doctor.evidence import GpuNode, Launch, Place, Taint, Toleration

GPU = "nvidia.com/gpu"
A_NODE = GpuNode(name="gpu-1", allocatable={GPU: 4}, architecture="amd64", driver=580, taints=())
A_LAUNCH = Launch(
    namespace="default",
    model="m",
    gpus={GPU: 1},
    replicas=2,
    surges=True,
    tolerations=(),
    runtime_class=None,
    user=1000,
    pull_secrets=("registry",),
    version="0.33.0",
    downloads=False,
    deadline_seconds=1200,
    scheduled=False,
)
A_PLACE = Place(
    nodes=(A_NODE,),
    launches=(A_LAUNCH,),
    runtime_classes=frozenset({"nvidia"}),
    openshift=False,
    missing_secrets=frozenset(),
    ignored_pod_monitors=(),
)
TAINT = Taint("dedicated", "gpu", "NoSchedule")


def on(**node: object) -> Place:
    """With another node."""
    return replace(A_PLACE, nodes=(replace(A_NODE, **node),))  # type: ignore[arg-type]


def of(**launch: object) -> Place:
    """With another launch."""
    return replace(A_PLACE, launches=(replace(A_LAUNCH, **launch),))  # type: ignore[arg-type]


def tolerating(*tolerations: Toleration) -> Place:
    """With a tainted node, and a launch that tolerates."""
    return replace(on(taints=(TAINT,)), launches=(replace(A_LAUNCH, tolerations=tolerations),))
