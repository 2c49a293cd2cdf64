"""Faults that keep engine pods from being scheduled, pulled, started, updated or scraped. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from outrider.cli.doctor.evidence import GpuNode, Launch, Place
from outrider.cli.doctor.findings import Finding, bad, fine, unseen, warning

ENGINE_STARTS = "engine starts"

_DOWNLOAD_SECONDS = 40 * 60
"""Time of a first start: an image of some 20 GB, weights, compilation, graphs."""

_DRIVER_OF_CUDA_13 = 580
_FIRST_WITH_CUDA_13 = (0, 33)
"""vLLM 0.33.0 wants PyTorch for CUDA 13. Source of the driver: NVIDIA's release notes of CUDA 13.0."""


def launch_findings(place: Place) -> tuple[Finding, ...]:
    """One finding for each fault; without a fault, one that says so."""
    found = (*_faults(place), *(unseen(ENGINE_STARTS, why) for why in place.refused))
    return found or (fine(ENGINE_STARTS, "nothing keeps engine pods from starting"),)


def _faults(place: Place) -> Iterator[Finding]:
    for launch in place.launches:
        yield from _pod_faults(launch, place)
    for name in place.ignored_pod_monitors:
        yield bad(
            "PodMonitor",
            f"no Prometheus takes {name}, because its podMonitorSelector wants other labels",
            "helm upgrade with --set podMonitor.labels.release=<release of kube-prometheus-stack>",
        )


def _pod_faults(launch: Launch, place: Place) -> Iterator[Finding]:
    name = launch.name
    for secret in launch.pull_secrets:
        if (launch.namespace, secret) in place.missing_secrets:
            action = f"kubectl create secret docker-registry {secret} -n {launch.namespace} ..."
            yield bad(ENGINE_STARTS, f"{name}: the pull secret {secret} is not in its namespace", action)
    if place.openshift and launch.user is not None:
        yield bad(
            ENGINE_STARTS,
            f"{name} asks for user {launch.user}, which OpenShift's restricted-v2 refuses",
            "helm upgrade with --set podUser=Platform",
        )
    if launch.gpus:
        yield from _gpu_faults(launch, place)
    if launch.downloads and launch.deadline_seconds < _DOWNLOAD_SECONDS:
        yield warning(
            ENGINE_STARTS,
            f"{name} may count as failed while it downloads: progressDeadline is"
            f" {launch.deadline_seconds / 60:.0f} min, and each start downloads the weights",
            "set spec.cache, or spec.rollout.progressDeadline to 60m",
        )


def _gpu_faults(launch: Launch, place: Place) -> Iterator[Finding]:
    offering = [node for node in place.nodes if _offers(node, launch)]
    if not offering:
        if launch.runtime_class is None and place.nodes and "nvidia" in place.runtime_classes:
            yield bad(
                ENGINE_STARTS,
                f"{launch.name} names no RuntimeClass, and nodes show GPUs only through the class nvidia",
                "set spec.podTemplate.spec.runtimeClassName: nvidia, and give it to the device plugin, too",
            )
        return
    tolerated = [node for node in offering if launch.scheduled or _tolerates(launch, node)]
    if not tolerated:
        taint = next(t for t in offering[0].taints if not any(x.covers(t) for x in launch.tolerations))
        yield bad(
            ENGINE_STARTS,
            f"{launch.name} does not tolerate the taint {taint.key}:{taint.effect} of the GPU nodes",
            "set spec.podTemplate.spec.tolerations: "
            f"[{{key: {taint.key}, operator: Exists, effect: {taint.effect}}}]",
        )
        return
    yield from _software_faults(launch, tolerated)
    yield from _room_faults(launch, place, tolerated)


def _software_faults(launch: Launch, nodes: list[GpuNode]) -> Iterator[Finding]:
    others = sorted({node.architecture for node in nodes} - {"amd64"})
    if others:
        yield warning(
            ENGINE_STARTS,
            f"{launch.name} may start on nodes with {', '.join(others)} processors",
            "build the engine image with --platform linux/arm64 for them, or select amd64 nodes",
        )
    least = _DRIVER_OF_CUDA_13 if _release(launch.version) >= _FIRST_WITH_CUDA_13 else 0
    old = [node for node in nodes if node.driver is not None and node.driver < least]
    if old:
        yield bad(
            ENGINE_STARTS,
            f"node {old[0].name} has NVIDIA driver {old[0].driver}; vLLM {launch.version} needs {least}",
            "update the driver of the GPU nodes, or set spec.engine.version to an older one",
        )


def _room_faults(launch: Launch, place: Place, nodes: list[GpuNode]) -> Iterator[Finding]:
    if not launch.surges or not launch.replicas:
        return
    for resource, of_one in launch.gpus.items():
        offered = sum(node.allocatable.get(resource, 0) for node in nodes)
        wanted = sum(each.gpus.get(resource, 0) * each.replicas for each in place.launches)
        if wanted <= offered < wanted + of_one:
            yield warning(
                ENGINE_STARTS,
                f"{launch.name}: an update starts a new pod first, and no {resource} is free for it",
                "set spec.rollout: {maxSurge: 0, maxUnavailable: 1}, or add a GPU",
            )


def _offers(node: GpuNode, launch: Launch) -> bool:
    return all(node.allocatable.get(resource, 0) >= count for resource, count in launch.gpus.items())


def _tolerates(launch: Launch, node: GpuNode) -> bool:
    return all(any(each.covers(taint) for each in launch.tolerations) for taint in node.taints)


def _release(version: str) -> tuple[int, ...]:
    """Major and minor number of a version; empty for any other text."""
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()
