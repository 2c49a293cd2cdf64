from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from outrider import __version__
from outrider.api.crd import FILE_NAME
from outrider.api.crd import render as crd_text
from outrider.cli.options import variable
from outrider.cluster.lease import LEASE_NAME
from outrider.cluster.resources import ACCESS_REVIEWS, LEASES, WATCHED_CHILDREN
from outrider.cluster.shards import Shard
from outrider.controller.http_server import MAX_SILENCE_SECONDS
from outrider.controller.settings import MetricsSourceKind, Settings
from outrider.plan.network_peers import read_peers
from tests.unit.chart.kit import CHART, helm, needs_helm, of_kind, render, rules


@needs_helm
def test_a_pod_whose_work_is_blocked_is_restarted_within_two_minutes_and_not_after_thirty_seconds() -> None:
    probe = of_kind("Deployment", render())["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]
    assert MAX_SILENCE_SECONDS > 2 * 15, "a blocked leader keeps its Lease, and works on"
    assert MAX_SILENCE_SECONDS + probe["periodSeconds"] * probe["failureThreshold"] <= 120


def test_the_operator_has_no_policy_unless_it_is_asked_for() -> None:
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["operatorNetworkPolicy"]["enabled"] is False


@needs_helm
def test_the_policy_of_the_operator_lets_prometheus_come_to_its_port() -> None:
    assert not [each for each in render() if each["kind"] == "NetworkPolicy"]
    documents = render("operatorNetworkPolicy.enabled=true")
    policy, pods = of_kind("NetworkPolicy", documents)["spec"], of_kind("Deployment", documents)["spec"]
    (rule,) = policy["ingress"]
    (container,) = pods["template"]["spec"]["containers"]

    assert policy["policyTypes"] == ["Ingress"]
    assert policy["podSelector"] == pods["selector"]
    assert rule["from"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ]
    assert rule["ports"] == [{"protocol": "TCP", "port": container["ports"][0]["name"]}]


@needs_helm
def test_the_policy_of_the_operator_without_peers_admits_no_client() -> None:
    documents = render("operatorNetworkPolicy.enabled=true", "operatorNetworkPolicy.metricsFrom=null")

    assert of_kind("NetworkPolicy", documents)["spec"]["ingress"] == []


@needs_helm
def test_the_policy_of_the_operator_takes_other_peers() -> None:
    peer = "operatorNetworkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus"
    documents = render("operatorNetworkPolicy.enabled=true", peer)

    (rule,) = of_kind("NetworkPolicy", documents)["spec"]["ingress"]
    assert {"podSelector": {"matchLabels": {"app": "prometheus"}}}.items() <= rule["from"][0].items()


def environment(documents: list[dict[str, Any]]) -> dict[str, str]:
    container = of_kind("Deployment", documents)["spec"]["template"]["spec"]["containers"][0]
    return {entry["name"]: entry["value"] for entry in container["env"]}


def test_the_charts_definition_is_the_generated_one() -> None:
    shipped = (CHART / "files" / FILE_NAME).read_text(encoding="utf-8")

    assert shipped == crd_text(), f"run `python -m outrider.api.crd > charts/outrider/files/{FILE_NAME}`"


@needs_helm
def test_the_definition_is_installed_whole_and_kept() -> None:
    installed = of_kind("CustomResourceDefinition", render())

    assert installed["metadata"].pop("annotations")["helm.sh/resource-policy"] == "keep"
    generated = yaml.safe_load(crd_text())
    generated["metadata"].pop("annotations", None)
    assert installed == generated


@needs_helm
def test_the_installed_definition_says_of_which_version_it_is() -> None:
    installed = of_kind("CustomResourceDefinition", render())

    assert installed["metadata"]["annotations"]["outrider.dev/version"] == __version__


DIGEST = f"sha256:{'0' * 64}"


@needs_helm
@pytest.mark.parametrize(
    ("values", "image"),
    [
        ((), f"outrider/operator:{__version__}"),
        (("image.tag=dev",), "outrider/operator:dev"),
        (("image.tag=dev", f"image.digest={DIGEST}"), f"outrider/operator@{DIGEST}"),
    ],
)
def test_the_image_is_that_of_the_version_unless_a_value_says_otherwise(
    values: tuple[str, ...], image: str
) -> None:
    (container,) = of_kind("Deployment", render(*values))["spec"]["template"]["spec"]["containers"]

    assert container["image"] == image


@needs_helm
def test_the_chart_has_no_default_image_and_says_how_to_get_one() -> None:
    result = helm("image.repository=")
    assert result.returncode != 0
    assert "image.repository is not set, because no image is published: build it" in result.stderr


OPENSHIFT = ("--api-versions", "security.openshift.io/v1")


@needs_helm
@pytest.mark.parametrize(
    ("user", "flags", "fixed"),
    [
        ("auto", (), True),
        ("auto", OPENSHIFT, False),
        ("Platform", (), False),
        ("Fixed", OPENSHIFT, True),
    ],
)
def test_no_user_is_fixed_where_the_platform_assigns_them(
    user: str, flags: tuple[str, ...], fixed: bool
) -> None:
    documents = render(f"podUser={user}", flags=flags)
    security = of_kind("Deployment", documents)["spec"]["template"]["spec"]["securityContext"]
    assert ("runAsUser" in security, "runAsGroup" in security) == (fixed, fixed)
    assert security["runAsNonRoot"] is True
    assert environment(documents).get("OUTRIDER_ENGINE_USER", "Fixed") == ("Fixed" if fixed else "Platform")


@needs_helm
def test_the_definition_can_be_installed_separately() -> None:
    assert all(document["kind"] != "CustomResourceDefinition" for document in render("crds.install=false"))


def test_the_schema_knows_every_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

    def unknown(values: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
        for name, value in values.items():
            known = schema["properties"].get(name)
            if known is None:
                yield f"{path}{name}"
            elif isinstance(value, dict) and "properties" in known:
                yield from unknown(value, known, f"{path}{name}.")

    assert list(unknown(values, schema, "")) == []


@needs_helm
@pytest.mark.parametrize(
    "value",
    [
        "unknown=1",
        "prometheus.url=host:9090",
        "tuning.interval=soon",
        "logs.format=xml",
        "metrics.source=prometheus",
        "networkPolicy.enabled=auto",
        "tuning.scaleSettle=-1",
        "traces.url=collector:4318",
        "traces.url=https://user:password@collector",
        "image.tagg=x",
        "admissionPolicy.enabled=sometimes",
        "admissionPolicy.podLabels={a b}",
        "engineImagePullSecrets={Not a name}",
    ],
)
def test_refuses_a_wrong_value(value: str) -> None:
    result = helm(value)

    assert result.returncode != 0
    assert value.split("=")[0].split(".")[-1] in result.stderr


@needs_helm
@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (("replicas=2", "leaderElection=false"), "leaderElection"),
        (("shards=2", "leaderElection=false"), "leaderElection"),
        (("tuning.interval=40",), "tuning.lease"),
    ],
)
def test_refuses_values_that_do_not_fit_together(values: tuple[str, ...], complaint: str) -> None:
    result = helm(*values)

    assert result.returncode != 0
    assert complaint in result.stderr


@needs_helm
def test_may_do_what_the_operator_does_and_nothing_else() -> None:
    granted = {(group, resource): verbs for group, resource, verbs in rules(of_kind("ClusterRole", render()))}

    assert granted == {
        # Watched. Who reads one by name is `outrider explain`, with the rights of its user.
        ("outrider.dev", "speculativemodels"): frozenset({"list", "watch"}),
        ("outrider.dev", "speculativemodels/status"): frozenset({"patch"}),
        # An owner reference that blocks deletion needs it where that is enforced.
        ("outrider.dev", "speculativemodels/finalizers"): frozenset({"update"}),
        # Server-side apply takes patch and create; a canary is deleted.
        ("apps", "deployments"): frozenset({"get", "list", "watch", "create", "patch", "delete"}),
        # The rest goes with its model, by garbage collection.
        ("", "services"): frozenset({"get", "list", "watch", "create", "patch"}),
        ("", "configmaps"): frozenset({"get", "list", "watch", "create", "patch"}),
        ("", "serviceaccounts"): frozenset({"get", "list", "watch", "create", "patch"}),
        # A download of weights is deleted when they are there.
        ("batch", "jobs"): frozenset({"get", "list", "watch", "create", "patch", "delete"}),
        # A budget goes when one replica is left.
        ("policy", "poddisruptionbudgets"): frozenset({"get", "list", "watch", "create", "patch", "delete"}),
        # What a rollout that failed returns to.
        ("apps", "replicasets"): frozenset({"list"}),
        # By name only: what is of no concern is not read.
        ("", "persistentvolumeclaims"): frozenset({"get", "create", "patch"}),
        ("", "secrets"): frozenset({"get", "create", "patch"}),
        ("", "pods"): frozenset({"list", "watch"}),
        ("events.k8s.io", "events"): frozenset({"create"}),
        # What spec.target names.
        ("apps", "statefulsets"): frozenset({"get"}),
        ("serving.kserve.io", "inferenceservices"): frozenset({"get"}),
        ("serving.kserve.io", "llminferenceservices"): frozenset({"get"}),
        # Of spec.inferencePool, too. It goes with that field.
        ("inference.networking.k8s.io", "inferencepools"): frozenset({"get", "create", "patch", "delete"}),
        ("leaderworkerset.x-k8s.io", "leaderworkersets"): frozenset({"get"}),
    }


@needs_helm
def test_leader_worker_sets_may_be_made_only_where_that_is_wanted() -> None:
    role = of_kind("ClusterRole", render("leaderWorkerSets.enabled=true"))
    granted = {(group, resource): verbs for group, resource, verbs in rules(role)}

    by_name = frozenset({"get", "create", "patch", "delete"})
    assert granted["leaderworkerset.x-k8s.io", "leaderworkersets"] == by_name


POLICY = "ValidatingAdmissionPolicy"
HAS_POLICIES = ("--api-versions", f"admissionregistration.k8s.io/v1/{POLICY}")


@needs_helm
@pytest.mark.parametrize(
    ("enabled", "flags", "there"),
    [
        ("auto", HAS_POLICIES, True),
        ("auto", (), False),
        ("true", (), True),
        ("false", HAS_POLICIES, False),
    ],
)
def test_a_policy_for_models_follows_the_cluster_or_the_value(
    enabled: str, flags: tuple[str, ...], there: bool
) -> None:
    documents = render(f"admissionPolicy.enabled={enabled}", flags=flags)

    kinds = {document["kind"] for document in documents}
    assert kinds & {POLICY, f"{POLICY}Binding"} == ({POLICY, f"{POLICY}Binding"} if there else set())


@needs_helm
@pytest.mark.parametrize(
    ("enabled", "flags", "said"),
    [("auto", (), True), ("auto", HAS_POLICIES, False), ("true", (), False), ("false", (), False)],
)
def test_a_missing_policy_that_was_not_switched_off_is_reported(
    enabled: str, flags: tuple[str, ...], said: bool
) -> None:
    text = helm(f"admissionPolicy.enabled={enabled}", flags=flags).stdout

    assert ("# WITHOUT AN ADMISSION POLICY" in text) is said


def policy(*values: str) -> dict[str, Any]:
    spec: dict[str, Any] = of_kind(POLICY, render("admissionPolicy.enabled=true", *values))["spec"]
    return spec


@needs_helm
def test_the_policy_asks_whether_the_user_may_create_deployments_there() -> None:
    asked = policy()["validations"][0]

    assert asked["expression"] == (
        "authorizer.group('apps').resource('deployments').namespace(request.namespace)"
        ".check('create').allowed()"
    )
    assert "ask for a role with it" in asked["messageExpression"]


@needs_helm
def test_the_policy_is_about_models_and_not_about_their_status_or_scale() -> None:
    (rule,) = policy()["matchConstraints"]["resourceRules"]

    assert rule["resources"] == ["speculativemodels"]
    assert rule["operations"] == ["CREATE", "UPDATE"]


@needs_helm
def test_the_policy_lets_pass_what_changes_no_pod() -> None:
    (condition,) = policy()["matchConditions"]

    assert condition["expression"] == "request.operation == 'CREATE' || object.spec != oldObject.spec"


@needs_helm
def test_the_policy_holds_in_the_watched_namespaces() -> None:
    assert "namespaceSelector" not in policy()["matchConstraints"]
    (watched,) = policy("watchNamespaces={a,b}")["matchConstraints"]["namespaceSelector"]["matchExpressions"]

    assert watched == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}


@needs_helm
def test_every_policy_is_bound_and_denies() -> None:
    documents = render("admissionPolicy.enabled=true")
    binding = of_kind(f"{POLICY}Binding", documents)

    assert binding["spec"] == {
        "policyName": of_kind(POLICY, documents)["metadata"]["name"],
        "validationActions": ["Deny"],
    }


@needs_helm
def test_labels_of_pods_are_named_in_a_value() -> None:
    (found,) = policy("admissionPolicy.podLabels={team,billing.example/}")["variables"]

    assert '["team","billing.example/"]' in found["expression"]


@needs_helm
def test_pod_templates_are_restricted_only_when_asked() -> None:
    told = " ".join(rule.get("message", "") for rule in policy()["validations"])
    asked = policy("admissionPolicy.restrictPodTemplate=true")["validations"]

    assert "restricted" not in told
    assert len(asked) > len(policy()["validations"])
    assert all("Pod Security restricted" in rule["message"] for rule in asked[2:])


@needs_helm
def test_every_kind_of_child_can_be_kept() -> None:
    granted = {(group, resource): verbs for group, resource, verbs in rules(of_kind("ClusterRole", render()))}

    kept = {"get", "list", "watch", "create", "patch"}
    assert all(granted[child.group, child.plural] >= kept for child in WATCHED_CHILDREN)


@needs_helm
@pytest.mark.parametrize(
    ("election", "strategy"),
    [
        ("true", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
        ("false", {"type": "Recreate"}),
    ],
)
def test_two_pods_overlap_only_where_they_elect_a_leader(election: str, strategy: dict[str, Any]) -> None:
    deployment = of_kind("Deployment", render(f"leaderElection={election}"))

    assert deployment["spec"]["strategy"] == strategy


@needs_helm
@pytest.mark.parametrize("values", [(), ("watchNamespaces={a,b}",)])
def test_may_see_other_operators_by_name_and_ask_whose_they_are(values: tuple[str, ...]) -> None:
    (role,) = [
        document
        for document in render(*values)
        if document["kind"] == "ClusterRole"
        and document["metadata"]["name"] == "outrider-other-installations-outrider-system"
    ]

    assert role["rules"] == [
        {
            "apiGroups": [LEASES.group],
            "resources": [LEASES.plural],
            "resourceNames": [LEASE_NAME],
            "verbs": ["list"],
        },
        {"apiGroups": [ACCESS_REVIEWS.group], "resources": [ACCESS_REVIEWS.plural], "verbs": ["create"]},
    ]


@needs_helm
def test_publishes_its_service_account() -> None:
    told = environment(render("serviceAccount.name=tuner"))["OUTRIDER_SERVICE_ACCOUNT"]

    assert told == of_kind("ServiceAccount", render("serviceAccount.name=tuner"))["metadata"]["name"]


@needs_helm
def test_needs_no_right_in_the_whole_cluster_where_that_is_not_wanted() -> None:
    documents = render("watchNamespaces={a,b}", "detectOtherInstallations=false")

    assert all(not document["kind"].startswith("ClusterRole") for document in documents)


@needs_helm
def test_has_no_right_outside_the_watched_namespaces() -> None:
    documents = render("watchNamespaces={a,b}", "detectOtherInstallations=false")
    roles = [document for document in documents if document["kind"] in ("Role", "ClusterRole")]

    assert {(role["kind"], role["metadata"]["namespace"]) for role in roles} == {
        ("Role", "a"),
        ("Role", "b"),
        ("Role", "outrider-system"),
    }
    assert environment(documents)["OUTRIDER_WATCH_NAMESPACES"] == "a b"


@needs_helm
def test_sets_only_variables_that_the_operator_reads() -> None:
    documents = render(
        "watchNamespaces={a}",
        r"engineImages.0\.32\.0=engine:a",
        "pluginImage=plugin:a",
        "engineImagePullSecrets={registry}",
        "prometheus.tokenSecret.name=t",
        "traces.url=http://collector:4318/v1/traces",
        "prometheus.username=u",
        "prometheus.passwordSecret.name=p",
        "prometheus.caConfigMap.name=c",
        "networkPolicy.enabled=true",
    )

    assert set(environment(documents)) <= {variable(name) for name in Settings.model_fields}


@needs_helm
def test_a_policy_for_engines_names_the_labels_of_the_operators_own_pods() -> None:
    documents = render("networkPolicy.enabled=true", "nameOverride=other", "watchNamespaces={a}")
    told = environment(documents)["OUTRIDER_CONTROL_PEERS"]
    peers = Settings(control_peers=told.split()).control_peers  # type: ignore[arg-type]
    operator = of_kind("Deployment", documents)["spec"]
    granted = {resource: verbs for _, resource, verbs in rules(of_kind("Role", documents))}

    assert peers == operator["selector"]["matchLabels"]
    assert peers.items() <= operator["template"]["metadata"]["labels"].items()
    assert granted["networkpolicies"] == {"get", "create", "patch"}


@needs_helm
@pytest.mark.parametrize(
    ("values", "clients"),
    [
        ([], [{"podSelector": {}}]),
        (["networkPolicy.clients=[]"], []),
        (['networkPolicy.clients=[{"namespaceSelector":{}}]'], [{"namespaceSelector": {}}]),
    ],
)
def test_the_operator_gets_the_clients_of_the_values(values: list[str], clients: list[Any]) -> None:
    flags = tuple(part for value in values for part in ("--set-json", value))
    told = environment(render("networkPolicy.enabled=true", flags=flags))["OUTRIDER_CLIENT_PEERS"]

    assert list(read_peers(Settings(client_peers=told).client_peers)) == clients


@needs_helm
@pytest.mark.parametrize("peer", ["{}", '{"namespace": "monitoring"}', '{"podSelector": {"app": "a"}}'])
def test_a_client_that_no_policy_knows_is_refused(peer: str) -> None:
    refused = helm("networkPolicy.enabled=true", flags=("--set-json", f"networkPolicy.clients=[{peer}]"))

    assert refused.returncode != 0
    assert "clients" in refused.stderr


@needs_helm
@pytest.mark.parametrize("list_of_peers", ["networkPolicy.clients", "operatorNetworkPolicy.metricsFrom"])
@pytest.mark.parametrize(
    ("peer", "wrong"),
    [
        ({"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}, "0/podSelector"),
        ({"ipBlock": {"cidr": "10.0.0.0/8"}, "namespaceSelector": {}}, "0/namespaceSelector"),
        ({"ipBlock": {"cidr": "all"}}, "cidr"),
        ({"ipBlock": {"cidr": "10.0.0.0/33"}}, "cidr"),
        ({"ipBlock": {"cidr": "10.0.0.256/8"}}, "cidr"),
        ({"ipBlock": {"cidr": "fd00::/129"}}, "cidr"),
        ({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/77"]}}, "except/0"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value),
)
def test_a_peer_that_would_end_the_operator_at_its_start_is_refused(
    list_of_peers: str, peer: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(ValueError, match="validation error"):
        read_peers(json.dumps([peer]))
    refused = helm(flags=("--set-json", f"{list_of_peers}={json.dumps([peer])}"))

    assert refused.returncode != 0
    assert wrong in refused.stderr


@needs_helm
@pytest.mark.parametrize(
    "block",
    [
        {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]},
        {"cidr": "0.0.0.0/0"},
        {"cidr": "255.199.249.9/32"},
        {"cidr": "fd00::/8", "except": ["fd00:1::/128"]},
    ],
    ids=json.dumps,
)
def test_addresses_that_kubernetes_takes_are_taken_by_chart_and_operator(block: dict[str, Any]) -> None:
    flags = ("--set-json", f"networkPolicy.clients={json.dumps([{'ipBlock': block}])}")
    told = environment(render("networkPolicy.enabled=true", flags=flags))["OUTRIDER_CLIENT_PEERS"]

    assert list(read_peers(Settings(client_peers=told).client_peers)) == [{"ipBlock": block}]


@needs_helm
def test_no_policy_for_engines_comes_unasked() -> None:
    assert "OUTRIDER_CONTROL_PEERS" not in environment(render())


@needs_helm
def test_traces_go_to_the_collector_of_the_value_and_by_default_nowhere() -> None:
    url = "http://collector:4318/v1/traces"

    assert environment(render(f"traces.url={url}"))["OUTRIDER_TRACES_URL"] == url
    assert "OUTRIDER_TRACES_URL" not in environment(render())


@needs_helm
def test_the_defaults_are_accepted_by_the_operator() -> None:
    told = environment(render())
    given = {name: value for name in Settings.model_fields if (value := told.get(variable(name))) is not None}

    assert Settings.model_validate(given).tuning_interval_seconds == 10


@needs_helm
def test_engine_images_reach_the_operator_as_pairs() -> None:
    documents = render(r"engineImages.0\.32\.0=engine:a", r"engineImages.0\.33\.0=engine:b")

    assert environment(documents)["OUTRIDER_ENGINE_IMAGES"] == "0.32.0=engine:a 0.33.0=engine:b"


@needs_helm
def test_the_image_of_the_plugin_reaches_the_operator() -> None:
    assert (
        environment(render("pluginImage=registry/plugin:a"))["OUTRIDER_PLUGIN_IMAGE"] == "registry/plugin:a"
    )
    assert "OUTRIDER_PLUGIN_IMAGE" not in environment(render())


@needs_helm
def test_pull_secrets_of_engines_reach_the_operator_by_name() -> None:
    documents = render("engineImagePullSecrets={registry,mirror}")

    assert environment(documents)["OUTRIDER_ENGINE_IMAGE_PULL_SECRETS"] == "registry mirror"
    assert "OUTRIDER_ENGINE_IMAGE_PULL_SECRETS" not in environment(render())
    # The operator's own image has pull secrets of its own.
    assert "imagePullSecrets" not in of_kind("Deployment", documents)["spec"]["template"]["spec"]


@needs_helm
@pytest.mark.parametrize("source", MetricsSourceKind)
def test_the_source_of_metrics_is_a_value(source: MetricsSourceKind) -> None:
    settings = environment(render(f"metrics.source={source}"))["OUTRIDER_METRICS_SOURCE"]

    assert Settings(metrics_source=settings).metrics_source is source  # type: ignore[arg-type]


@needs_helm
def test_runs_restricted() -> None:
    pod = of_kind("Deployment", render())["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@needs_helm
def test_the_token_of_prometheus_is_mounted_where_the_operator_reads_it() -> None:
    documents = render("prometheus.tokenSecret.name=prom", "prometheus.tokenSecret.key=bearer")
    pod = of_kind("Deployment", documents)["spec"]["template"]["spec"]
    folders = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}

    token_file = f"{folders['prometheus-token']}/bearer"
    assert environment(documents)["OUTRIDER_PROMETHEUS_TOKEN_FILE"] == token_file
    assert {"name": "prometheus-token", "secret": {"secretName": "prom"}} in pod["volumes"]


@needs_helm
def test_the_password_of_prometheus_is_mounted_where_the_operator_reads_it() -> None:
    documents = render("prometheus.username=outrider", "prometheus.passwordSecret.name=prom")
    pod = of_kind("Deployment", documents)["spec"]["template"]["spec"]
    folders = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}

    assert environment(documents)["OUTRIDER_PROMETHEUS_USERNAME"] == "outrider"
    password_file = f"{folders['prometheus-password']}/password"
    assert environment(documents)["OUTRIDER_PROMETHEUS_PASSWORD_FILE"] == password_file
    assert {"name": "prometheus-password", "secret": {"secretName": "prom"}} in pod["volumes"]


@needs_helm
def test_engines_are_monitored_only_when_asked() -> None:
    assert all(document["kind"] != "PodMonitor" for document in render())
    monitor = of_kind("PodMonitor", render("podMonitor.enabled=true"))

    assert monitor["spec"]["podTargetLabels"] == ["outrider.dev/model"]


@needs_helm
def test_a_pod_that_shows_too_much_is_not_scraped() -> None:
    spec = of_kind("PodMonitor", render("podMonitor.enabled=true"))["spec"]
    assert (spec["sampleLimit"], spec["bodySizeLimit"]) == (10_000, "8MB")

    changed = render("podMonitor.enabled=true", "podMonitor.sampleLimit=500000")
    assert of_kind("PodMonitor", changed)["spec"]["sampleLimit"] == 500_000


@needs_helm
def test_the_operator_is_monitored_at_the_port_where_it_shows_its_metrics() -> None:
    documents = render("podMonitor.enabled=true")
    pod = of_kind("Deployment", documents)["spec"]["template"]
    (monitor,) = (each for each in documents if each["metadata"]["name"] == "outrider-operator")

    assert monitor["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (port,) = pod["spec"]["containers"][0]["ports"]
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == port["name"]


@needs_helm
@pytest.mark.parametrize("release", ["outrider", "blue"])
def test_the_monitor_of_the_operator_names_the_job_as_the_examples_of_autoscaling_do(release: str) -> None:
    root = CHART.parents[1]
    files = [*(root / "examples" / "autoscaling").glob("*.yaml"), root / "docs" / "guide" / "autoscaling.md"]
    asked = {
        job for path in files for job in re.findall(r'job(?:="|_name: )([\w-]+)', path.read_text("utf-8"))
    }
    documents = render("podMonitor.enabled=true", release=release)
    (endpoint,) = next(
        each["spec"]["podMetricsEndpoints"]
        for each in documents
        if each["metadata"]["name"].endswith("-operator") and each["kind"] == "PodMonitor"
    )

    assert [{step["replacement"]} for step in endpoint["relabelings"] if step["targetLabel"] == "job"] == [
        asked
    ]


def own_objects(
    *values: str, release: str = "outrider", flags: tuple[str, ...] = ()
) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of what a release without the definition owns."""
    documents = render("crds.install=false", *values, release=release, flags=flags)
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in documents
    }


@needs_helm
def test_a_second_release_in_one_namespace_is_refused_because_both_would_own_the_role_of_the_lease() -> None:
    shared = own_objects("watchNamespaces={a}", release="blue") & own_objects(
        "watchNamespaces={a}", release="green"
    )

    name = f"{LEASE_NAME}-leader-election"
    assert shared == {("Role", "outrider-system", name), ("RoleBinding", "outrider-system", name)}


@needs_helm
def test_releases_in_namespaces_of_their_own_share_no_object() -> None:
    mine = own_objects("admissionPolicy.enabled=true", "watchNamespaces={a}")
    other = own_objects(
        "admissionPolicy.enabled=true", "watchNamespaces={b}", flags=("--namespace", "elsewhere")
    )

    assert mine
    assert not mine & other


@needs_helm
@pytest.mark.parametrize(
    ("shards", "replicas", "guarded"), [(1, 1, False), (1, 2, True), (4, 1, True), (4, 0, False)]
)
def test_several_operators_are_spread_over_nodes_and_drained_one_at_a_time(
    shards: int, replicas: int, guarded: bool
) -> None:
    documents = render(f"shards={shards}", f"replicas={replicas}")
    pod = of_kind("Deployment", documents)["spec"]["template"]
    budgets = [each["spec"] for each in documents if each["kind"] == "PodDisruptionBudget"]
    selectors = [
        *(budget["selector"]["matchLabels"] for budget in budgets),
        *(each["labelSelector"]["matchLabels"] for each in pod["spec"].get("topologySpreadConstraints", [])),
    ]

    assert len(selectors) == (2 if guarded else 0)
    assert all(each.items() <= pod["metadata"]["labels"].items() for each in selectors)
    assert [budget["maxUnavailable"] for budget in budgets] == [1] * guarded


@needs_helm
@pytest.mark.parametrize(
    ("shards", "replicas", "pods"), [(1, 0, 0), (1, 1, 1), (4, 1, 4), (4, 2, 5), (4, 0, 0)]
)
def test_has_a_pod_for_each_shard_and_the_standbys(shards: int, replicas: int, pods: int) -> None:
    documents = render(f"shards={shards}", f"replicas={replicas}")

    assert of_kind("Deployment", documents)["spec"]["replicas"] == pods
    assert environment(documents).get("OUTRIDER_SHARDS", "1") == str(shards)
    assert any(document["kind"] == "PodDisruptionBudget" for document in documents) == (pods > 1)


@needs_helm
def test_may_renew_the_leases_of_all_shards() -> None:
    (role,) = [
        document
        for document in render("shards=3")
        if document["kind"] == "Role" and document["metadata"]["name"] == "outrider-leader-election"
    ]
    names = [Shard(number, 3).lease_name(LEASE_NAME) for number in (1, 2, 3)]

    assert role["rules"][0]["resourceNames"] == names
