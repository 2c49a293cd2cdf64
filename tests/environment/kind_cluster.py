"""Stages inside Kubernetes: the cluster, images, Prometheus and its adapter, volumes, the operator."""

from __future__ import annotations

from tests.environment.choice import Cluster, Setup
from tests.environment.place import (
    ADAPTER_IMAGE,
    CLUSTER,
    ENGINE_IMAGE,
    KUBERNETES,
    NODE_IMAGE,
    OPERATOR_IMAGE,
    PLUGIN_IMAGE,
    PROMETHEUS_IMAGE,
    SGLANG_IMAGE,
    STOCK_IMAGE,
    TWIN_IMAGE,
)
from tests.environment.records import fingerprint
from tests.environment.runner import Stage, Work

LOADED_TOGETHER = (
    (OPERATOR_IMAGE,),
    (STOCK_IMAGE, ENGINE_IMAGE, TWIN_IMAGE, SGLANG_IMAGE),
    (PLUGIN_IMAGE,),
    (PROMETHEUS_IMAGE,),
    (ADAPTER_IMAGE,),
)
"""What shares its layers is loaded in one go."""
LOADED_IMAGES = tuple(image for images in LOADED_TOGETHER for image in images)
OPERATOR_NAMESPACE = "outrider-system"
POD_REMEDY = "`kubectl get pods -A` and `kubectl describe pod` show what is wrong; `make clean` starts afresh"


def cluster(setup: Setup) -> Stage:
    place, choice = setup.place, setup.choice
    existing = choice.cluster is Cluster.EXISTING

    def configuration() -> str:
        template = place.here / "cluster" / f"{choice.cluster}.yaml"
        return template.read_text().replace("@CACHE@", str(place.cache))

    def content() -> str:
        if existing:
            return fingerprint(choice.context, choice.kubeconfig)
        image = setup.shell.output("docker", "image", "inspect", "--format", "{{.Id}}", NODE_IMAGE)
        return fingerprint(configuration(), image)

    def create(work: Work) -> None:
        if existing:
            work.progress(f"connecting to {choice.context}")
            chosen = ["config", "view", "--minify", "--flatten", "--raw", "--context", choice.context]
            own = {**setup.shell.environment, "KUBECONFIG": choice.kubeconfig}
            place.kubeconfig.write_text(type(setup.shell)(own).output("kubectl", *chosen) + "\n")
            place.kubeconfig.chmod(0o600)
            work.run("kubectl", "get", "--raw", "/readyz")
            work.progress(choice.context)
            return
        work.progress("creating one node")
        named = ["--name", CLUSTER, "--kubeconfig", str(place.kubeconfig)]
        work.run("kind", "delete", "cluster", *named)
        work.feed(configuration(), "kind", "create", "cluster", *named, "--image", NODE_IMAGE,
                  "--config", "-", "--wait", "120s")  # fmt: skip
        # By default it requests nothing, and engines on two cores would leave it nothing: Services go stale.
        work.run("kubectl", "-n", "kube-system", "set", "resources", "daemonset/kube-proxy",
                 "--requests", "cpu=100m")  # fmt: skip
        # One node gains nothing from a second one, and each reserves 100m of two cores.
        work.run("kubectl", "-n", "kube-system", "scale", "deployment/coredns", "--replicas", "1")
        work.progress(f"Kubernetes {KUBERNETES}, one node")

    needs = ("kubernetes programs", "cluster programs")
    return Stage(
        name="cluster",
        run=create,
        key=content,
        present=lambda: setup.shell.succeeds("kubectl", "get", "--raw", "/readyz", "--request-timeout", "5s"),
        needs=needs if existing else (*needs, "node image"),
        remedy="`make clean` removes the cluster and our Docker Engine; then run the same command again",
    )


def loaded_images(setup: Setup) -> Stage:
    """Images from Docker into the node. Other existing clusters must have them, or be able to pull them."""
    context = setup.choice.context

    def load(work: Work) -> None:
        if not context.startswith("kind-"):
            work.progress(f"not a kind cluster: its nodes must have {', '.join(LOADED_IMAGES)}")
            return
        name = context.removeprefix("kind-")
        for number, images in enumerate(LOADED_TOGETHER):
            work.progress(f"{number} of {len(LOADED_TOGETHER)}")
            # Not all at once: kind leaves out what the node has, but only by whole calls.
            work.run("kind", "load", "docker-image", "--name", name, *images)
        work.progress(f"{len(LOADED_IMAGES)} images")

    return Stage(
        name="images in cluster",
        run=load,
        key=lambda: fingerprint(_cluster_id(setup), _image_ids(setup)),
        present=lambda: True,
        needs=("cluster", "project images", "prometheus image", "adapter image"),
        remedy="`kind load docker-image` must work by hand; `make clean` starts afresh",
    )


def prometheus(setup: Setup) -> Stage:
    manifests = setup.place.here / "prometheus"

    def apply(work: Work) -> None:
        work.progress("starting")
        work.run("kubectl", "apply", "--server-side", "-f", manifests)
        # A mounted configuration that changed is read at the next start.
        work.run("kubectl", "-n", "monitoring", "rollout", "restart", "deployment/prometheus")
        work.run(
            "kubectl", "-n", "monitoring", "rollout", "status", "deployment/prometheus", "--timeout", "120s"
        )
        work.progress("ready")

    return Stage(
        name="prometheus",
        run=apply,
        key=lambda: fingerprint(_cluster_id(setup), manifests, _image_ids(setup, PROMETHEUS_IMAGE)),
        present=lambda: _available(setup, "monitoring", "prometheus"),
        needs=("images in cluster",),
        remedy=POD_REMEDY,
    )


def adapter(setup: Setup) -> Stage:
    """External metrics for the autoscaling test, with the rules of the example."""
    manifest = setup.place.here / "adapter" / "adapter.yaml"
    rules = setup.place.root / "examples" / "autoscaling" / "adapter-rules.yaml"
    existing = setup.choice.cluster is Cluster.EXISTING

    def apply(work: Work) -> None:
        if existing:
            # The whole cluster has one APIService, which may belong to a KEDA.
            work.progress("left to the cluster's owner")
            return
        work.progress("starting")
        work.run("kubectl", "apply", "--server-side", "-f", rules, "-f", manifest)
        deployment = ("-n", "monitoring", "rollout")
        work.run("kubectl", *deployment, "restart", "deployment/prometheus-adapter")
        work.run("kubectl", *deployment, "status", "deployment/prometheus-adapter", "--timeout", "120s")
        work.progress("ready")

    return Stage(
        name="adapter",
        run=apply,
        key=lambda: fingerprint(_cluster_id(setup), manifest, rules, _image_ids(setup, ADAPTER_IMAGE)),
        present=lambda: existing or _available(setup, "monitoring", "prometheus-adapter"),
        needs=("prometheus",),
        remedy=POD_REMEDY,
    )


def volumes(setup: Setup) -> Stage:
    manifest = setup.place.here / "cluster" / "volumes.yaml"
    claims = ["get", "persistentvolumeclaim", "engine-env", "tiny-models", "-n", "default", "-o", "name"]

    def apply(work: Work) -> None:
        work.run("kubectl", "apply", "--server-side", "-f", manifest)
        for claim in ("engine-env", "tiny-models"):
            bound = "--for=jsonpath={.status.phase}=Bound"
            work.run("kubectl", "wait", "-n", "default", f"pvc/{claim}", bound, "--timeout", "60s")
        work.progress("vLLM and models")

    return Stage(
        name="volumes",
        run=apply,
        key=lambda: fingerprint(_cluster_id(setup), manifest),
        present=lambda: setup.shell.succeeds("kubectl", *claims),
        needs=("cluster", "models", "engine environment", "sglang environment"),
        remedy=POD_REMEDY,
    )


def operator(setup: Setup) -> Stage:
    chart = setup.place.root / "charts" / "outrider"
    values = setup.place.here / "values.yaml"

    def install(work: Work) -> None:
        work.progress("installing the chart")
        work.run("helm", "upgrade", "--install", "outrider", chart, "--namespace", OPERATOR_NAMESPACE,
                 "--create-namespace", "--values", values,
                 "--set-string", f"podAnnotations.outrider\\.dev/image={_image_ids(setup, OPERATOR_IMAGE)}",
                 "--wait", "--timeout", "180s")  # fmt: skip
        work.progress("ready")

    return Stage(
        name="operator",
        run=install,
        key=lambda: fingerprint(_cluster_id(setup), chart, values, _image_ids(setup, OPERATOR_IMAGE)),
        present=lambda: _available(setup, OPERATOR_NAMESPACE, "outrider"),
        needs=("images in cluster", "prometheus", "volumes"),
        remedy=f"`kubectl -n {OPERATOR_NAMESPACE} logs deployment/outrider` says why; {POD_REMEDY}",
    )


def _cluster_id(setup: Setup) -> str:
    """A new cluster has a new identity, so nothing recorded for the old one counts."""
    chosen = ["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}", "--request-timeout", "5s"]
    return setup.shell.output("kubectl", *chosen)


def _image_ids(setup: Setup, *images: str) -> str:
    return setup.shell.output(
        "docker", "image", "inspect", "--format", "{{.Id}}", *(images or LOADED_IMAGES)
    ).replace("\n", " ")


def _available(setup: Setup, namespace: str, deployment: str) -> bool:
    ready = setup.shell.output(
        "kubectl",
        "-n",
        namespace,
        "get",
        "deployment",
        deployment,
        "-o",
        "jsonpath={.status.availableReplicas}",
    )
    return ready not in ("", "0")
