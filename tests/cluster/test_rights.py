"""Who may create SpeculativeModels, and what their podTemplate may say, by the policy of the chart."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.kubectl import KubectlError, apply, kubectl, patch, wait_for
from tests.cluster.models import Manifest, read_example

pytestmark = pytest.mark.engine("none", "refused")

CHART = Path(__file__).resolve().parents[2] / "charts" / "outrider"
NAMESPACE = "rights"
RESTRICTED = "rights-restricted"
MAKER = f"system:serviceaccount:{NAMESPACE}:maker"
"""May write SpeculativeModels, and nothing else."""
DEPLOYER = f"system:serviceaccount:{NAMESPACE}:deployer"
"""May create Deployments as well."""

Overlay = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> Iterator[None]:
    """One where the release's policy holds, and one with a policy of its own that restricts podTemplate."""
    policy = restricting_policy()
    try:
        for manifest in (*map(a_namespace, (NAMESPACE, RESTRICTED)), *roles(), *policy):
            apply(manifest)
        wait_until_refused(lambda: create(a_model(NAMESPACE), user=MAKER))
        wait_until_refused(lambda: create(a_model(RESTRICTED, spec={"hostPID": True})))
        yield
    finally:
        kubectl("delete", "-f", "-", "--ignore-not-found", stdin=yaml.safe_dump_all(policy))
        kubectl("delete", "namespace", NAMESPACE, RESTRICTED, "--ignore-not-found")


def restricting_policy() -> list[Manifest]:
    """As of a release that watches one namespace."""
    values = ("enabled=true", "restrictPodTemplate=true", "podLabels={team,billing.example/}")
    settings = [word for value in values for word in ("--set", f"admissionPolicy.{value}")]
    command = ["helm", "template", RESTRICTED, str(CHART), "--set", f"watchNamespaces={{{RESTRICTED}}}"]
    command += ["--set", "image.repository=outrider/operator"]
    shown = ["--show-only", "templates/admissionpolicy.yaml"]
    done = subprocess.run([*command, *settings, *shown], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def a_namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def roles() -> Iterator[Manifest]:
    rights = {"maker": ("outrider.dev", "speculativemodels"), "deployer": ("apps", "deployments")}
    verbs = ["get", "create", "update", "patch"]
    for name, (group, resource) in rights.items():
        rule = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
        yield rbac("Role", name) | {"rules": [rule]}
    for name, users in {"maker": ("maker", "deployer"), "deployer": ("deployer",)}.items():
        yield rbac("RoleBinding", name) | {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": user, "namespace": NAMESPACE} for user in users],
        }


def rbac(kind: str, name: str) -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata}


def a_model(namespace: str, **overlay: Any) -> Manifest:
    """overlay: fields of podTemplate."""
    manifest = read_example()
    manifest["metadata"] = {"name": "m", "namespace": namespace}
    manifest["spec"] |= {"replicas": 0, "podTemplate": overlay}
    return manifest


def create(manifest: Manifest, *, user: str = "kubernetes-admin") -> str:
    """Ask only: nothing is stored."""
    groups = ["--as-group=system:masters"] if user == "kubernetes-admin" else []
    asked = ["create", "--dry-run=server", f"--as={user}", *groups, "-f", "-"]
    return kubectl(*asked, stdin=json.dumps(manifest))


def wait_until_refused(ask: Callable[[], str]) -> None:
    """A policy holds some moments after it was made."""

    def look() -> Manifest | None:
        try:
            ask()
        except KubectlError as error:
            return {"status": str(error)} if "ValidatingAdmissionPolicy" in str(error) else None
        return None

    wait_for("the policy holds", look, lambda seen: seen is not None, seconds=60)


def container(name: str, **fields: Any) -> Overlay:
    return {"containers": [{"name": name, **fields}]}


def with_context(**fields: Any) -> Overlay:
    return container("engine", securityContext=fields)


def test_who_may_not_create_deployments_may_not_create_models_either() -> None:
    with pytest.raises(KubectlError) as refused:
        create(a_model(NAMESPACE), user=MAKER)
    assert f"{MAKER} may not create Deployments in namespace {NAMESPACE}" in str(refused.value)
    assert "ask for a role with it, such as edit" in str(refused.value)


def test_who_may_create_deployments_may_create_models() -> None:
    assert "created" in create(a_model(NAMESPACE, spec={"nodeSelector": {"a": "b"}}), user=DEPLOYER)


def test_a_label_that_a_foreign_service_may_select_by_is_refused() -> None:
    with pytest.raises(KubectlError, match=r"a Service may select pods by app; .*admissionPolicy\.podLabels"):
        create(a_model(NAMESPACE, metadata={"labels": {"app": "shop"}}), user=DEPLOYER)


def test_a_label_that_no_message_can_repeat_is_refused_by_the_name_of_the_field() -> None:
    with pytest.raises(
        KubectlError, match=r"spec\.podTemplate\.metadata\.labels: a Service may select pods by some"
    ):
        create(a_model(NAMESPACE, metadata={"labels": {"a\nb": "x"}}), user=DEPLOYER)


def test_labels_that_the_chart_names_are_admitted() -> None:
    labels = {"team": "search", "billing.example/unit": "7"}
    assert "created" in create(a_model(RESTRICTED, metadata={"labels": labels}))


def test_a_model_that_is_there_can_be_labelled_and_scaled_but_not_changed() -> None:
    kept = a_model(NAMESPACE)
    apply(kept)
    try:
        maker = f"--as={MAKER}"
        kubectl("annotate", "specmodel", "m", "-n", NAMESPACE, maker, "example/note=x")
        patch("specmodel", "m", {"metadata": {"finalizers": ["example/kept"]}}, NAMESPACE)
        change = json.dumps({"metadata": {"finalizers": []}})
        kubectl("patch", "specmodel", "m", "-n", NAMESPACE, maker, "--type=merge", "-p", change)
        change = json.dumps({"spec": {"podTemplate": {"spec": {"hostPID": True}}}})
        with pytest.raises(KubectlError, match="may not create Deployments"):
            kubectl("patch", "specmodel", "m", "-n", NAMESPACE, maker, "--type=merge", "-p", change)
    finally:
        kubectl("delete", "specmodel", "m", "-n", NAMESPACE, "--ignore-not-found")


HARDENED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        read_example()["spec"]["podTemplate"]["spec"],
        container("sidecar", image="x", securityContext=HARDENED),
        {"initContainers": [{"name": "first", "image": "x", "securityContext": HARDENED}]},
        with_context(capabilities={"add": ["NET_BIND_SERVICE"]}, runAsUser=1000),
        {
            "securityContext": {
                "fsGroup": 1000,
                "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
            }
        },
        {"volumes": [{"name": "cache", "emptyDir": {}}, {"name": "schedule", "$patch": "delete"}]},
        {"hostNetwork": False, "nodeSelector": {"gpu": "h100"}, "tolerations": [{"operator": "Exists"}]},
    ],
)
def test_what_restricted_allows_is_admitted(spec: Overlay) -> None:
    assert "created" in create(a_model(RESTRICTED, spec=spec))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"$patch": "replace", "containers": []}, "leave out $patch"),
        (container("engine", **{"$patch": "replace"}), "leave out $patch"),
        (with_context(**{"$patch": "replace"}), "leave out $patch"),
        (with_context(capabilities={"$patch": "replace"}), "leave out $patch"),
        ({"securityContext": {"seccompProfile": {"$patch": "delete"}}}, "leave out $patch"),
        ({"hostNetwork": True}, "leave out hostNetwork"),
        ({"hostIPC": True}, "leave out hostNetwork"),
        (container("engine", ports=[{"containerPort": 1, "hostPort": 1}]), "leave out hostPort"),
        (
            container("engine", livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 1}}),
            "leave out host in",
        ),
        ({"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}, "and no other kind"),
        ({"volumes": [{"name": "share", "nfs": {"server": "a", "path": "/"}}]}, "and no other kind"),
        (with_context(privileged=True), "leave out privileged"),
        (with_context(allowPrivilegeEscalation=True), "leave out privileged"),
        (with_context(procMount="Unmasked"), "leave out privileged"),
        ({"securityContext": {"windowsOptions": {"hostProcess": True}}}, "leave out privileged"),
        ({"securityContext": {"runAsNonRoot": False}}, "leave runAsNonRoot true"),
        (with_context(runAsUser=0), "runAsUser other than 0"),
        (with_context(capabilities={"add": ["SYS_ADMIN"]}), "add nothing but"),
        (with_context(capabilities={"drop": []}), "add nothing but"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "RuntimeDefault and Localhost"),
        (with_context(appArmorProfile={"type": "Unconfined"}), "RuntimeDefault and Localhost"),
        (with_context(seLinuxOptions={"type": "spc_t"}), "leave out user and role"),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "use safe ones only"),
        (container("sidecar", image="x"), "every container beside engine"),
        ({"initContainers": [{"name": "engine", "image": "x"}]}, "every container beside engine"),
    ],
)
def test_what_restricted_does_not_allow_is_refused_with_a_sentence(spec: Overlay, words: str) -> None:
    with pytest.raises(KubectlError) as refused:
        create(a_model(RESTRICTED, spec=spec))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "spec",
    [
        {"securityContext": None},
        {"securityContext": {"seccompProfile": None}},
        {"securityContext": {"runAsNonRoot": None}},
        container("engine", securityContext=None),
        with_context(capabilities=None),
        with_context(capabilities={"drop": None}),
        with_context(allowPrivilegeEscalation=None),
    ],
)
def test_what_keeps_the_engine_restricted_cannot_be_taken_away_by_null(spec: Overlay) -> None:
    with pytest.raises(KubectlError, match="ValidatingAdmissionPolicy"):
        create(a_model(RESTRICTED, spec=spec))


def test_an_annotation_cannot_take_away_the_profile_of_apparmor() -> None:
    annotations = {"container.apparmor.security.beta.kubernetes.io/engine": "unconfined"}
    with pytest.raises(KubectlError, match="RuntimeDefault and Localhost"):
        create(a_model(RESTRICTED, metadata={"annotations": annotations}))
