"""Whatever the overlay says, the parts by which Outrider starts and rules an engine are as planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from outrider.api.reasons import DegradedReason
from outrider.plan import Plan
from outrider.runtimes.vllm.environment import JOINED_VARIABLES, OWNED_VARIABLES
from outrider_protocol.releases import DEFAULT_RELEASE
from tests.unit.plan.factories import a_model, a_plan, engine_container, environment, pod_spec

STOCK = {"method": "ngram", "tuning": {"mode": "Auto", "actuation": "Rollout"}}
OUTRIDERS = {"outrider", "outrider_api"}


def with_engine(**fields: object) -> Plan:
    return with_pod(containers=[{"name": "engine", **fields}])


def with_pod(**spec: object) -> Plan:
    return a_plan(a_model(podTemplate={"spec": spec}))


def refusal(result: Plan) -> str:
    ((reason, message),) = result.problems
    assert reason is DegradedReason.INVALID_SPEC
    return message


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"image": "evil:1"}, "containers[engine].image belongs to Outrider: set spec.engine.image"),
        ({"image": None}, "containers[engine].image"),
        ({"command": ["sh"]}, "containers[engine].command"),
        ({"args": ["--model", "x"]}, "containers[engine].args belongs to Outrider: set spec.engine.args"),
        ({"args": None}, "containers[engine].args"),
        ({"env": None}, "containers[engine].env[OUTRIDER_DRAIN_FILE]"),
        ({"env": [{"name": "VLLM_PLUGINS", "value": ""}]}, "containers[engine].env[VLLM_PLUGINS]"),
        ({"env": [{"name": "VLLM_PLUGINS", "$patch": "delete"}]}, "containers[engine].env[VLLM_PLUGINS]"),
        ({"env": [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "1"}]}, "VLLM_USE_V2_MODEL_RUNNER"),
        ({"env": [{"value": "nameless"}]}, "every entry of env needs name"),
        ({"ports": None}, "containers[engine].ports[http]"),
        ({"ports": [{"containerPort": 8000, "name": "web"}]}, "containers[engine].ports[http]"),
        ({"ports": [{"containerPort": 9000, "name": "http"}]}, "containers[engine].ports[http]"),
        ({"readinessProbe": None}, "containers[engine].readinessProbe.httpGet"),
        ({"livenessProbe": {"httpGet": {"path": "/"}}}, "containers[engine].livenessProbe.httpGet"),
        ({"startupProbe": {"$patch": "replace"}}, "containers[engine].startupProbe.httpGet"),
        ({"lifecycle": None}, "containers[engine].lifecycle.preStop"),
        ({"lifecycle": {"preStop": None}}, "containers[engine].lifecycle.preStop"),
        (
            {"volumeMounts": [{"mountPath": "/etc/outrider/schedule", "name": "tmp"}]},
            "/etc/outrider/schedule",
        ),
        ({"workingDir": "/data"}, "containers[engine].workingDir"),
        (
            {"env": [{"name": "PYTHONPATH", "value": "/data"}]},
            "containers[engine].env[PYTHONPATH] belongs to Outrider: let it begin with /opt/outrider",
        ),
        ({"env": [{"name": "PYTHONPATH", "value": "/opt/outrider2:/data"}]}, "env[PYTHONPATH]"),
        ({"env": [{"name": "PYTHONPATH", "value": "/data:/opt/outrider"}]}, "env[PYTHONPATH]"),
        ({"env": [{"name": "PYTHONPATH", "value": ""}]}, "env[PYTHONPATH]"),
        ({"env": [{"name": "PYTHONPATH", "$patch": "delete"}]}, "env[PYTHONPATH]"),
        (
            {"env": [{"name": "PYTHONPATH", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}]},
            "env[PYTHONPATH]",
        ),
        ({"env": [{"name": "PYTHONHOME", "value": "/data"}]}, "env[PYTHONHOME] belongs to Outrider: leave"),
        (
            {"$patch": "replace", "image": f"vllm/vllm-openai:v{DEFAULT_RELEASE}"},
            "containers[engine].command",
        ),
        ({"$patch": "delete"}, "containers[engine] belongs to Outrider"),
    ],
)
def test_an_overlay_that_takes_a_part_of_the_engine_is_refused_by_that_part(
    fields: Mapping[str, object], named: str
) -> None:
    message = refusal(with_engine(**fields))
    assert message.startswith("spec.podTemplate: ")
    assert named in message


@pytest.mark.parametrize(
    ("variable", "remedy"),
    [
        ("VLLM_USE_V2_MODEL_RUNNER", "set spec.engine.modelRunner"),
        ("OUTRIDER_K0", "set spec.speculation.tuning.k0"),
        ("OUTRIDER_SWEEP", "set spec.speculation.tuning.sweep"),
        ("OUTRIDER_CANDIDATES", "set spec.speculation.candidates"),
    ],
)
def test_a_variable_that_a_field_sets_is_answered_with_the_field(variable: str, remedy: str) -> None:
    message = refusal(with_engine(env=[{"name": variable, "value": "7"}]))
    assert message.endswith(f"env[{variable}] belongs to Outrider: {remedy}")


@pytest.mark.parametrize(
    ("theirs", "loaded"),
    [
        ("my_model", "outrider,outrider_api,my_model"),
        ("a, b", "outrider,outrider_api,a,b"),
        ("b,outrider,b", "outrider,outrider_api,b"),
    ],
)
def test_other_plugins_are_loaded_beside_outriders(theirs: str, loaded: str) -> None:
    result = with_engine(env=[{"name": "VLLM_PLUGINS", "value": theirs}])
    assert environment(result)["VLLM_PLUGINS"] == loaded


def test_a_stock_engine_loads_the_plugins_that_its_manifest_names() -> None:
    env = [{"name": "VLLM_PLUGINS", "value": "my_model"}]
    template = {"spec": {"containers": [{"name": "engine", "env": env}]}}
    assert environment(a_plan(a_model(speculation=STOCK, podTemplate=template)))["VLLM_PLUGINS"] == "my_model"


def test_plugins_out_of_a_config_map_are_refused_since_they_cannot_be_joined() -> None:
    source = {"configMapKeyRef": {"name": "mine", "key": "plugins"}}
    message = refusal(with_engine(env=[{"name": "VLLM_PLUGINS", "valueFrom": source}]))
    assert "name other plugins in it as a plain value" in message


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"containers": None}, "containers[engine]"),
        ({"$patch": "replace"}, "containers[engine]"),
        ({"volumes": [{"name": "schedule", "emptyDir": {}}]}, "volumes[schedule]"),
        ({"volumes": None}, "volumes[outrider-plugin]"),
        ({"volumes": [{"name": "outrider-plugin", "image": {}}]}, "volumes[outrider-plugin]"),
        ({"initContainers": None}, "initContainers[outrider-plugin]"),
        (
            {"initContainers": [{"name": "outrider-plugin", "image": "evil:1"}]},
            "initContainers[outrider-plugin]",
        ),
        (
            {
                "initContainers": [
                    {
                        "name": "mine",
                        "image": "mine:1",
                        "volumeMounts": [{"name": "outrider-plugin", "mountPath": "/x"}],
                    }
                ]
            },
            "volumes[outrider-plugin] belongs to Outrider: do not mount it in container mine",
        ),
    ],
)
def test_an_overlay_that_takes_the_engine_or_its_volumes_is_refused(
    spec: Mapping[str, object], named: str
) -> None:
    assert named in refusal(with_pod(**spec))


OWN_VOLUME = [{"name": "own", "configMap": {"name": "mine"}}]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/outrider/schedule/",
        "/etc/outrider/schedule/control-key.pub",
        "/etc/outrider/schedule/..data",
        "/etc/outrider/other",
        "/etc/outrider",
        "/etc/outrider/",
        "/etc",
        "/",
        "//etc//outrider",
        "///etc/outrider",
        "/etc/./outrider",
        "/etc/x/../outrider/schedule",
        "etc/outrider",
        "/opt/outrider",
        "/opt/outrider/outrider_engine",
        "/opt",
        "/opt/",
        "",
        ".",
    ],
)
@pytest.mark.parametrize(("field", "key"), [("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")])
def test_nothing_is_mounted_at_above_or_below_the_owned_folders(path: str, field: str, key: str) -> None:
    engine = {"name": "engine", field: [{"name": "own", key: path}]}
    message = refusal(with_pod(volumes=OWN_VOLUME, containers=[engine]))
    assert f"containers[engine].volumeMounts[{path}] belongs to Outrider" in message
    assert "/etc/outrider or /opt/outrider" in message


@pytest.mark.parametrize(
    "path",
    ["/opt/vllm", "/opt/outrider2", "/opt/outrider-engine", "/etc/outriders", "/etc/ssl/certs", "/data"],
)
def test_what_is_mounted_beside_the_owned_folders_is_the_users(path: str) -> None:
    engine = {"name": "engine", "volumeMounts": [{"name": "own", "mountPath": path}]}
    assert with_pod(volumes=OWN_VOLUME, containers=[engine]).problems == ()


def test_another_container_may_mount_what_it_likes() -> None:
    beside = {"name": "side", "image": "x", "volumeMounts": [{"name": "own", "mountPath": "/opt/outrider"}]}
    assert with_pod(volumes=OWN_VOLUME, containers=[beside]).problems == ()


def test_a_stock_engine_takes_any_search_path() -> None:
    variables = [{"name": "PYTHONPATH", "value": "/data"}, {"name": "PYTHONHOME", "value": "/usr"}]
    overlay = {"spec": {"containers": [{"name": "engine", "env": variables}]}}
    assert a_plan(a_model(speculation=STOCK, podTemplate=overlay)).problems == ()


def test_a_label_by_which_pods_are_found_cannot_be_another_one() -> None:
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    assert "managed-by" in refusal(a_plan(a_model(podTemplate={"metadata": {"labels": labels}})))


def test_a_stock_engine_cannot_be_told_to_load_the_plugin() -> None:
    engine = {"name": "engine", "env": [{"name": "VLLM_PLUGINS", "value": "outrider"}]}
    overlay = {"spec": {"containers": [engine]}}
    result = a_plan(a_model(speculation=STOCK, podTemplate=overlay))
    assert "env[VLLM_PLUGINS]" in refusal(result)


@pytest.mark.parametrize(
    "fields",
    [
        {"readinessProbe": {"periodSeconds": 1}},
        {"startupProbe": {"failureThreshold": 2000}},
        {"ports": [{"containerPort": 8000, "hostPort": 80}, {"containerPort": 9000, "name": "debug"}]},
        {"lifecycle": {"preStop": {"sleep": {"seconds": 60}}}},
        {"env": [{"name": "OUTRIDER_MEASURE", "value": "off"}, {"name": "HOME", "value": "/data"}]},
        {"env": [{"name": "PYTHONPATH", "value": "/opt/outrider"}]},
        {"env": [{"name": "PYTHONPATH", "value": "/opt/outrider:/data"}]},
        {"resources": None, "securityContext": {"readOnlyRootFilesystem": False}},
    ],
)
def test_what_belongs_to_the_user_stays_the_users(fields: Mapping[str, object]) -> None:
    assert with_engine(**fields).problems == ()


# Close to what is planned: overlays that reach for what is owned, and harmless ones beside them.
names = st.sampled_from(["engine", "engine", "engine", "sidecar"])
values: st.SearchStrategy[Any] = (
    st.none() | st.text(max_size=3) | st.integers(0, 9000) | st.just({}) | st.just([])
)
variables = st.fixed_dictionaries(
    {"name": st.sampled_from([*sorted(OWNED_VARIABLES), "HOME", "MINE"])},
    optional={"value": values, "valueFrom": values, "$patch": st.sampled_from(["delete", "replace"])},
)
ports = st.fixed_dictionaries(
    {"containerPort": st.sampled_from([8000, 9000])},
    optional={"name": st.sampled_from(["http", "web"]) | st.none(), "$patch": st.just("delete")},
)
mounts = st.fixed_dictionaries(
    {"mountPath": st.sampled_from(["/etc/outrider/schedule", "/etc/outrider/", "//opt", "/tmp", "/data"])},
    optional={"name": st.sampled_from(["tmp", "schedule"]), "$patch": st.just("delete")},
)
probes = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "periodSeconds": st.integers(1, 60),
        "httpGet": st.none() | st.fixed_dictionaries({}, optional={"path": st.just("/"), "host": st.text()}),
        "$patch": st.just("replace"),
    },
)
handlers = st.none() | st.fixed_dictionaries(
    {}, optional={"sleep": st.just({"seconds": 9}), "exec": st.none(), "$patch": st.just("replace")}
)


def with_image(container: dict[str, Any]) -> dict[str, Any]:
    """One beside the engine is not admitted without."""
    return container if container["name"] == "engine" else {**container, "image": "beside:1"}


containers = st.fixed_dictionaries(
    {"name": names},
    optional={
        "image": values,
        "command": values,
        "args": values,
        "env": st.none() | st.lists(variables, max_size=3),
        "ports": st.none() | st.lists(ports, max_size=2),
        "volumeMounts": st.none() | st.lists(mounts, max_size=2),
        "readinessProbe": probes,
        "livenessProbe": probes,
        "lifecycle": st.none() | st.fixed_dictionaries({}, optional={"preStop": handlers}),
        "tty": st.booleans(),
        "$patch": st.sampled_from(["delete", "replace"]),
    },
).map(with_image)
harmless = st.fixed_dictionaries(
    {"name": names},
    optional={
        "env": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(["HOME", "MINE"]), "value": st.text()})
        ),
        "ports": st.just([{"containerPort": 8000, "hostPort": 80}, {"containerPort": 9000, "name": "web"}]),
        "volumeMounts": st.just(
            [{"mountPath": "/data", "name": "home"}, {"mountPath": "/tmp", "$patch": "delete"}]
        ),
        "readinessProbe": st.fixed_dictionaries({"periodSeconds": st.integers(1, 60)}),
        "lifecycle": st.just({"preStop": {"sleep": {"seconds": 9}}}),
        "resources": st.none(),
    },
).map(with_image)
volumes = st.fixed_dictionaries(
    {"name": st.sampled_from(["models-0", "schedule", "home"])},
    optional={"emptyDir": values, "secret": values, "$patch": st.just("delete")},
)
reaching = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.none() | st.lists(containers, max_size=2),
        "volumes": st.none() | st.lists(volumes, max_size=2),
        "$patch": st.just("replace"),
    },
)
overlays = reaching | st.fixed_dictionaries({"containers": st.lists(harmless | containers, max_size=2)})


def owned(result: Plan) -> dict[str, Any]:
    """What has to be the same with and without an overlay, read from the plan as a kubelet would."""
    engine: Any = engine_container(result)
    given_variables = environment(result)
    serving = [port for port in engine["ports"] if port.get("name") == "http"]
    folders = {
        m["mountPath"]: m
        for m in engine.get("volumeMounts") or ()
        if m["mountPath"].startswith(("/etc/outrider", "/opt", "//opt"))
    }
    shown = {mount["name"] for mount in folders.values()}
    behind = [volume for volume in pod_spec(result).get("volumes", ()) if volume["name"] in shown]  # type: ignore[attr-defined]
    return {
        **{part: engine[part] for part in ("image", "command", "args")},
        "variables": {name: given_variables.get(name) for name in OWNED_VARIABLES.keys() - JOINED_VARIABLES},
        "plugins": OUTRIDERS & set(given_variables["VLLM_PLUGINS"].split(",")),
        "ports": [(port["containerPort"], port["protocol"]) for port in serving],
        "probes": [engine[kind]["httpGet"] for kind in ("startupProbe", "readinessProbe", "livenessProbe")],
        "drains": bool(engine["lifecycle"]["preStop"]),
        "mounts": folders,
        "volumes": behind,
    }


@settings(max_examples=150)
@given(spec=overlays, stock=st.booleans())
def test_whatever_is_overlaid_is_refused_or_leaves_the_owned_parts_as_planned(
    spec: dict[str, object], stock: bool
) -> None:
    speculation = STOCK if stock else {}
    plain = a_plan(a_model(speculation=speculation))
    overlaid = a_plan(a_model(speculation=speculation, podTemplate={"spec": spec}))
    if overlaid.problems:
        event("refused")
        assert refusal(overlaid).startswith("spec.podTemplate: ")
        return
    event("planned")
    assert owned(overlaid) == owned(plain)
