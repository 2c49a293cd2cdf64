"""``render(import(x))`` keeps every flag and every variable of x, or the import names it."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.resource import SpeculativeModel
from outrider.importing import Imported, Options, Outcome, import_text
from outrider.plan import ControlKeys, PlanSettings, plan
from outrider.runtimes.flag_table import Form
from outrider.runtimes.vllm.flags import FLAGS

KEYS = ControlKeys(private="", public="")
UNKNOWN = {"swap-space": Form.VALUE, "num-scheduler-steps": Form.VALUE, "use-v2-block-manager": Form.PAIR}
FORMS = {name: flag.form for name, flag in FLAGS.flags.items() if name not in ("model", "config")} | UNKNOWN
SPELLINGS = {name: [f"--{name}", f"--{name.replace('-', '_')}"] for name in FORMS}
for short, name in FLAGS.short.items():
    SPELLINGS.get(name, []).append(f"-{short}")

VALUES = st.one_of(
    st.integers(-3, 300).map(str),
    st.sampled_from(
        ["0.9", "auto", "16K", "fp8", "hf_abcdefghijklmnopqrst", '{"method":"ngram"}', '{"a":{"b":[1]}}']
    ),
    st.text("abcxyz/._:-0189", min_size=1, max_size=12).filter(lambda text: not text.startswith("-")),
)
NAMES = st.one_of(
    st.sampled_from(
        [
            "HF_TOKEN",
            "HOME",
            "PYTHONPATH",
            "VLLM_PLUGINS",
            "VLLM_USE_V2_MODEL_RUNNER",
            "OUTRIDER_K0",
            "HF_HOME",
        ]
    ),
    st.sampled_from(["VLLM_API_KEY", "NCCL_DEBUG", "CUDA_VISIBLE_DEVICES", "USER", "OUTRIDER_POD_UID"]),
    st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True),
)
SOURCES = st.one_of(
    st.fixed_dictionaries({"value": VALUES}),
    st.just({"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}),
    st.just({"valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}),
)


@st.composite
def flags(draw: st.DrawFn) -> dict[str, list[str]]:
    """Name -> the words that set it."""
    found = dict[str, list[str]]()
    for name in draw(st.lists(st.sampled_from(sorted(FORMS)), max_size=6, unique=True)):
        spelling = draw(st.sampled_from(SPELLINGS[name]))
        if FORMS[name] is Form.VALUE:
            value = draw(VALUES)
            found[name] = draw(st.sampled_from([[spelling, value], [f"{spelling}={value}"]]))
        elif FORMS[name] is Form.PAIR and draw(st.booleans()):
            found[name] = [f"--no-{name}"]
        else:
            found[name] = [spelling]
    return found


def a_deployment(words: list[str], env: list[dict[str, Any]]) -> str:
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.33.0", "args": ["a/b", *words], "env": env}
    template = {"spec": {"containers": [container]}}
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": template},
    }
    return yaml.safe_dump(document)


def rendered(each: Imported) -> tuple[list[str], dict[str, Any]]:
    """Flags and variables of the engine's container."""
    model = SpeculativeModel.model_validate(each.manifest)
    children = plan(model, settings=PlanSettings(), keys=KEYS).children
    found = next((child for child in children if child["kind"] == "Deployment"), None)
    if found is None:  # A download comes first; what it does not say, the spec does.
        args = [f"--{name}" for name in model.spec.engine.args]
        return args, {}
    spec: Any = found["spec"]
    container = spec["template"]["spec"]["containers"][0]
    return container["args"], {entry["name"]: entry for entry in container["env"]}


def named(each: Imported) -> str:
    return "\n".join(finding.what for outcome in Outcome for finding in each.findings.of(outcome))


FIELDS = {
    "data-parallel-size",
    "enable-expert-parallel",
    "pipeline-parallel-size",
    "port",
    "tensor-parallel-size",
}
"""Flags that a field says, and that are not rendered where they are vLLM's default."""
SPECULATION = ("spec-method", "spec-model", "spec-tokens", "speculative-config")


def value_of(words: list[str]) -> str:
    return words[1] if len(words) == 2 else words[0].partition("=")[2]


def same(text: str, other: str) -> bool:
    """Two spellings of one value: as texts, numbers or JSON."""
    try:
        return text == other or bool(json.loads(text) == json.loads(other))
    except ValueError:
        return False


@given(flags())
def test_every_flag_is_kept_with_its_value_or_named(drawn: dict[str, list[str]]) -> None:
    (each,) = import_text(a_deployment([word for words in drawn.values() for word in words], []), Options())
    if not isinstance(each, Imported):
        assert "speculative-config" in each.why or "would be refused" in each.why
        return
    words, _ = rendered(each)
    values = {word.partition("=")[0].lstrip("-"): word.partition("=")[2] for word in words}
    for name, given_words in drawn.items():
        # A flag is named as the source writes it.
        if any(f"--{no}{name}" in named(each) for no in ("", "no-")) or name in FIELDS | set(SPECULATION):
            continue
        if FORMS[name] is Form.SWITCH and given_words == [f"--no-{name}"]:
            continue
        if FORMS[name] is Form.VALUE:
            assert name in values, (name, words)
            assert name == "max-model-len" or same(values[name], value_of(given_words)), (name, words)
        else:
            off = given_words == [f"--no-{name}"]
            assert ("no-" if off else "") + name in values, (name, words)


@given(st.dictionaries(NAMES, SOURCES, max_size=6))
def test_every_variable_is_kept_or_named(drawn: dict[str, dict[str, Any]]) -> None:
    env = [{"name": name, **source} for name, source in drawn.items()]
    (each,) = import_text(a_deployment([], env), Options())
    assert isinstance(each, Imported)
    _, variables = rendered(each)
    for entry in env:
        found = variables.get(entry["name"])
        same = found is not None and found.get("valueFrom") == entry.get("valueFrom")
        joined = entry["name"] == "VLLM_PLUGINS" and found is not None
        runner = entry["name"] == "VLLM_USE_V2_MODEL_RUNNER" and "modelRunner" in json.dumps(each.manifest)
        kept = joined or (same and found is not None and found.get("value") == entry.get("value"))
        assert kept or runner or f"env {entry['name']}" in named(each), entry


def test_short_names_are_those_of_vllm() -> None:
    assert FLAGS.dashed("tp") in SPELLINGS["tensor-parallel-size"]
