"""The policy that adds the plugin to labelled pods. `tests/cluster/test_injection_policy.py` applies it."""

from __future__ import annotations

import json
import re

import pytest

from charts.injection import FILE_NAME, IMAGE, MAX_K, Cel, cel, render
from outrider.importing.findings import ImportRefused
from outrider.importing.injection import Injection, inject
from outrider.runtimes.flag_table import Form
from outrider.runtimes.vllm.flags import FLAGS
from outrider_protocol.releases import DEFAULT_RELEASE
from tests.unit.chart.kit import CHART, helm, needs_helm, of_kind
from tests.unit.chart.kit import render as rendered

POLICY = "MutatingAdmissionPolicy"
ON = ("injectionPolicy.enabled=true", "pluginImage=registry/plugin:1")
NEW = ("--kube-version", "1.36.0")
READ_BY_THE_POLICY = ("max-num-seqs", "speculative-config")
NOT_OF_THE_LAUNCH = ("model",)
"""The command needs a name of the model for other decisions."""

TEXT = (CHART / "files" / FILE_NAME).read_text(encoding="utf-8")
SHIPPED = json.loads(TEXT)


def test_the_data_are_up_to_date() -> None:
    assert render() == TEXT, "stale: run `python -m charts.injection --write charts/outrider/files/`"


@needs_helm
def test_nothing_is_injected_by_default() -> None:
    assert POLICY not in {each["kind"] for each in rendered(flags=NEW)}


@needs_helm
def test_labelled_pods_get_the_image_and_no_failure_stops_them() -> None:
    documents = rendered(*ON, flags=NEW)
    spec = of_kind(POLICY, documents)["spec"]
    assert spec["failurePolicy"] == "Ignore"
    assert spec["matchConstraints"]["objectSelector"]["matchExpressions"] == [
        {"key": "outrider.dev/inject", "operator": "Exists"}
    ]
    (mutation,) = spec["mutations"]
    assert "registry/plugin:1" in mutation["jsonPatch"]["expression"]
    assert IMAGE not in str(documents)


@needs_helm
def test_named_namespaces_limit_the_policy() -> None:
    spec = of_kind(POLICY, rendered(*ON, "watchNamespaces={a,b}", flags=NEW))["spec"]
    assert spec["matchConstraints"]["namespaceSelector"]["matchExpressions"][0]["values"] == ["a", "b"]


@needs_helm
@pytest.mark.parametrize(
    ("values", "version", "message"),
    [
        (ON[:1], "1.36.0", "set pluginImage"),
        (ON, "1.35.4", "take 1.36 or newer, or use outrider inject"),
        (("injectionPolicy.enabled=auto",), "1.36.0", "injectionPolicy"),
    ],
)
def test_what_the_policy_lacks_is_named(values: tuple[str, ...], version: str, message: str) -> None:
    result = helm(*values, flags=("--kube-version", version))
    assert result.returncode != 0
    assert message in result.stderr


def launch(*words: str) -> object:
    """What the command changes in an engine; None where it refuses."""
    config = json.dumps({"method": "eagle3", "model": "org/head", "num_speculative_tokens": 3})
    container = {
        "name": "vllm",
        "image": f"vllm/vllm-openai:v{DEFAULT_RELEASE}",
        "args": ["--model=org/target", f"--speculative-config={config}"],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    container["args"] = [*container["args"], *words]
    pod = {"kind": "Pod", "metadata": {"name": "chat"}, "spec": {"containers": [container]}}
    try:
        (found,) = inject(json.dumps(pod), Injection(image=IMAGE))
    except ImportRefused:
        return None
    engine = found.manifest["spec"]["containers"][0]  # type: ignore[index, call-overload]
    return [engine["env"], [word for word in engine["args"] if word not in words]]  # type: ignore[index, union-attr, call-overload]


def test_the_policy_leaves_each_engine_with_a_flag_by_which_the_command_decides() -> None:
    pattern = SHIPPED["deniedFlags"]
    plain = launch()
    switches = (Form.PAIR, Form.SWITCH)
    written = {flag: f"--{flag}" + ("" if FLAGS.form_of(flag) in switches else "=2") for flag in FLAGS.flags}
    decisive = {flag for flag, word in written.items() if launch(word) != plain}
    assert decisive >= {"data-parallel-size", "enable-dbo", *READ_BY_THE_POLICY}
    for flag in decisive - {*READ_BY_THE_POLICY, *NOT_OF_THE_LAUNCH}:
        assert re.match(pattern, written[flag]), flag
        assert re.match(pattern, written[flag].replace("-", "_").replace("__", "--", 1)), flag
    assert not re.match(pattern, "--speculative-config={}")


def test_each_number_of_drafts_has_its_candidates() -> None:
    for known in SHIPPED["candidates"].values():
        assert [max(known[str(k)]) for k in range(1, MAX_K + 1)] == list(range(1, MAX_K + 1))
        assert all(ks == sorted(ks) and ks[0] == 0 for ks in known.values())


def test_values_become_cel() -> None:
    value = {"a": [1, 'b"c'], "d": True, "e": Cel("variables.name")}
    assert cel(value) == r'{"a": dyn([1, "b\"c"]), "d": dyn(true), "e": dyn(variables.name)}'
    with pytest.raises(TypeError, match="no CEL for float"):
        cel(1.5)
