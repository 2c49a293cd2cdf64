"""The comments of ``outrider render``: what was added and why, and what is probably not what was meant."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from outrider.cli.main import app
from tests.unit.api.admission_cases import base_manifest
from tests.unit.plan import golden

PLANNED = [case for case in golden.cases() if case not in ("unsupported", "cache", "oci-download")]
SAID = {
    "model",
    "revision",
    "max-model-len",
    "max-num-seqs",
    "tensor-parallel-size",
    "pipeline-parallel-size",
    "data-parallel-size",
    "enable-expert-parallel",
    "speculative-config",
    # Of SGLang.
    "context-length",
    "model-path",
    "speculative-algorithm",
    "speculative-draft-model-path",
    "speculative-num-steps",
}
"""Flags that a field of the manifest says under another name."""


def printed(manifest: object) -> tuple[list[str], list[Any]]:
    """Comments and documents."""
    result = CliRunner().invoke(app, ["render", "-"], input=yaml.safe_dump(manifest))
    assert result.exit_code == 0, result.stderr
    comments = list(itertools.takewhile(lambda line: line.startswith("#"), result.stdout.splitlines()))
    return comments, list(yaml.safe_load_all(result.stdout))


def of(**spec: Any) -> list[str]:
    manifest: Any = base_manifest()
    manifest["spec"] |= spec
    return printed(manifest)[0]


@pytest.mark.parametrize("case", PLANNED)
def test_everything_that_a_pod_has_and_its_manifest_does_not_say_is_there_with_its_reason(case: str) -> None:
    raw = yaml.safe_load((golden.FOLDER / case / "in.yaml").read_text())
    comments, documents = printed(raw)
    named = {line[4:].partition(":")[0].partition("=")[0] for line in comments if line.startswith("#   ")}
    said = {name.replace("_", "-") for name in (raw["spec"].get("engine") or {}).get("args") or {}} | SAID
    said |= {"served-model-name"} if "servedName" in raw["spec"]["model"] else set()
    said |= {"port"} if "port" in (raw["spec"].get("engine") or {}) else set()
    for document in documents:
        pod = (document.get("spec") or {}).get("template", {}).get("spec")
        if document["kind"] != "Deployment" or pod is None:
            continue
        overlay = (raw["spec"].get("podTemplate") or {}).get("spec") or {}
        theirs = {entry["name"] for one in overlay.get("containers", ()) for entry in one.get("env") or ()}
        engine = next(one for one in pod["containers"] if one["name"] == "engine")
        flags = {word.partition("=")[0] for word in engine["args"] if word.startswith("--")}
        flags = {flag for flag in flags if flag[2:].removeprefix("no-") not in said}
        assert flags <= named
        variables = {f"env {entry['name']}" for entry in engine["env"] if entry["name"] not in theirs}
        assert variables <= named
        told = {volume["name"] for volume in overlay.get("volumes", ())}
        mine = {"schedule", "shm", "tmp", "home"} & {one["name"] for one in pod["volumes"]} - told
        assert {f"volume {name}" for name in mine} <= named


def test_what_the_manifest_says_is_no_addition() -> None:
    comments = of(
        model={"uri": "hf://a/b", "servedName": "x"}, engine={"port": 8001, "args": {"shutdown-timeout": 9}}
    )
    text = "\n".join(comments)
    assert not any(name in text for name in ("--served-model-name", "--port", "--shutdown-timeout"))


@pytest.mark.parametrize(
    ("written", "alike"),
    [
        ("max-num-sequences", "max-num-seqs"),
        ("enable_prefix_cache", "enable-prefix-caching"),
        ("gpu-memory-utilisation", "gpu-memory-utilization"),
        ("no-enable-prefix-cacheing", "enable-prefix-caching"),
    ],
)
def test_a_flag_that_this_vllm_has_not_names_the_nearest_one_and_is_rendered(
    written: str, alike: str
) -> None:
    manifest: Any = base_manifest()
    manifest["spec"]["engine"] = {"args": {written: True}}
    comments, documents = printed(manifest)
    assert any(
        f"args.{written}: the parser of vLLM" in line and f"mean {alike}?" in line for line in comments
    )
    assert f"--{written}" in str(documents)


@pytest.mark.parametrize(
    "flag", ["enable-prefix-caching", "no-async-scheduling", "cc.level", "enable-prefix"]
)
def test_a_flag_that_this_vllm_has_needs_no_comment(flag: str) -> None:
    assert not any("no such flag" in line for line in of(engine={"args": {flag: True}}))


def test_a_flag_of_another_release_is_unknown_to_this_one() -> None:
    args = {"image": "mine:1", "args": {"max-num-queued-reqs": 9}}
    assert not any("no such flag" in line for line in of(engine={"version": "0.29.0", **args}))
    assert any("vLLM 0.28.0 has no such flag" in line for line in of(engine={"version": "0.28.0", **args}))


NULL = {"podTemplate": {"spec": {"containers": [{"name": "engine", "resources": None}]}}}


def test_a_null_that_kubectl_apply_would_drop_is_named_with_what_survives() -> None:
    (line,) = (line for line in of(**NULL) if "is null" in line)
    assert "spec.podTemplate.spec.containers[0].resources" in line
    assert "{$patch: delete}" in line
    assert "--server-side" in line


def test_a_null_that_a_cluster_stored_did_arrive() -> None:
    manifest: Any = base_manifest()
    manifest["spec"] |= NULL
    manifest["metadata"]["uid"] = "u-1"
    assert not any("is null" in line for line in printed(manifest)[0])


def test_a_comment_stays_on_its_line_whatever_a_manifest_holds() -> None:
    comments = of(podTemplate={"spec": {"a\nkind: Secret\n": None}})
    assert any("a?kind: Secret?" in line for line in comments)


def test_an_assistant_as_draft_model_is_answered_with_mtp() -> None:
    speculation = {"numSpeculativeTokens": 4, "drafter": {"uri": "hf://google/gemma-4-31B-it-assistant"}}
    said = of(speculation={"method": "draft_model", **speculation})
    assert any("write mtp" in line for line in said)
    assert not any("write mtp" in line for line in of(speculation={"method": "mtp", **speculation}))
