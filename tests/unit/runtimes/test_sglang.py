"""Pods of SGLang: flags and environment of each method, its schedule without the plugin, and its metrics."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from outrider.api.engines import RuntimeKind
from outrider.api.reasons import DegradedReason
from outrider.plan import Plan, PlanSettings
from outrider.runtimes import RUNTIMES, missing_model, remedy
from outrider.runtimes.control import NO_CONTROL
from outrider.runtimes.sglang import adaptive
from outrider_protocol.sglang_releases import RELEASES
from tests.unit.plan.factories import (
    a_plan,
    arguments,
    engine_container,
    environment,
    flag,
    pod_spec,
)
from tests.unit.runtimes.sglang_models import HEAD, OFF, ROLLOUT, a_sglang_model

SGLANG = RUNTIMES[RuntimeKind.SGLANG]


def planned(*, method: str = "eagle3", speculation: Mapping[str, object] = HEAD, **spec: Any) -> Plan:
    return a_plan(a_sglang_model(method, speculation, **spec))


def adaptive_config(result: Plan) -> object:
    return json.loads(environment(result)[adaptive.VARIABLE])


def test_sglangs_own_image_starts_with_the_plugin_beside_it() -> None:
    result = planned()
    assert result.problems == ()
    assert engine_container(result)["image"] == "lmsysorg/sglang:v0.5.23"
    containers: Any = pod_spec(result)["initContainers"]
    (init,) = containers
    assert init["image"] == PlanSettings().plugin_image
    assert environment(result)["SGLANG_PLUGINS"] == "outrider"


def test_a_tuned_launch_builds_a_state_for_each_candidate() -> None:
    result = planned()
    assert arguments(result) == [
        "--model-path=Qwen/Qwen3-8B",
        "--served-model-name=qwen",
        "--host=0.0.0.0",
        "--port=8000",
        "--enable-metrics",
        "--speculative-algorithm=EAGLE3",
        "--speculative-draft-model-path=org/head",
        "--speculative-num-steps=5",
        "--speculative-eagle-topk=1",
        "--speculative-num-draft-tokens=6",
        "--speculative-adaptive",
        f"--speculative-adaptive-config={adaptive.FILE}",
    ]
    assert adaptive_config(result) == {"1": {"candidate_steps": [0, 1, 2, 3, 5]}}
    assert environment(result)["OUTRIDER_CANDIDATES"] == "0,1,2,3,5"


def test_the_command_writes_the_configuration_and_gives_its_process_to_sglang(tmp_path: Path) -> None:
    """The real shell runs the command; a program in the place of Python shows what it gets."""
    file = tmp_path / "adaptive.json"
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\nprintf "%s|" $$ "$@"\n')
    python.chmod(0o755)
    command: Any = engine_container(planned())["command"]
    shell, option, script, name = command
    started = subprocess.Popen(
        [shell, option, str(script).replace(adaptive.FILE, str(file)), name, "--a b"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", adaptive.VARIABLE: '{"1":{"candidate_steps":[0,"$x"]}}'},
        stdout=subprocess.PIPE,
        text=True,
    )
    said, _ = started.communicate()
    assert said == f"{started.pid}|-m|sglang.launch_server|--a b|"
    assert file.read_text() == '{"1":{"candidate_steps":[0,"$x"]}}'


def test_without_the_plugin_sglangs_own_mode_follows_the_schedule() -> None:
    schedule = [
        {"maxBatchSize": 8, "numSpeculativeTokens": 5},
        {"maxBatchSize": 32, "numSpeculativeTokens": 1},
        {"numSpeculativeTokens": 0},
    ]
    result = planned(speculation={**HEAD, **ROLLOUT, "schedule": schedule})
    assert adaptive_config(result) == {
        "1": {"candidate_steps": [5]},
        "9": {"candidate_steps": [1]},
        "33": {"candidate_steps": [0]},
    }
    variables = environment(result)
    assert (variables["SGLANG_PLUGINS"], "OUTRIDER_CANDIDATES" in variables) == ("none", False)
    assert "initContainers" not in pod_spec(result)
    assert engine_container(result)["lifecycle"] == {"preStop": {"sleep": {"seconds": 15}}}


@pytest.mark.parametrize(
    ("method", "speculation", "flags"),
    [
        ("eagle", HEAD, {"algorithm": "EAGLE", "num-steps": "5", "eagle-topk": "1"}),
        ("mtp", {}, {"algorithm": "NEXTN", "num-steps": "5", "num-draft-tokens": "6"}),
        ("draft_model", {**HEAD, **OFF}, {"algorithm": "STANDALONE", "num-steps": "5", "adaptive": None}),
        ("ngram", OFF, {"algorithm": "NGRAM", "num-draft-tokens": "6", "num-steps": None}),
        ("dflash", {**HEAD, **OFF}, {"algorithm": "DFLASH", "dflash-block-size": "6"}),
        ("dspark", {**HEAD, **OFF}, {"algorithm": "DSPARK", "dspark-block-size": "5"}),
    ],
)
def test_each_method_has_the_flags_of_its_algorithm(
    method: str, speculation: dict[str, object], flags: dict[str, str | None]
) -> None:
    result = planned(method=method, speculation=speculation)
    assert {name: flag(result, f"--speculative-{name}") for name in flags} == flags


def test_a_draft_model_by_restarts_has_one_k_for_all_batch_sizes() -> None:
    row = [{"numSpeculativeTokens": 2}]
    result = planned(
        method="draft_model", speculation={**HEAD, **ROLLOUT, "schedule": row, "candidates": [0, 2, 5]}
    )
    assert (flag(result, "--speculative-num-steps"), adaptive.VARIABLE in environment(result)) == ("2", False)
    assert engine_container(result)["command"] == ["python3", "-m", "sglang.launch_server"]


def test_without_speculation_no_flag_is_about_drafts() -> None:
    result = planned(method="none", speculation={})
    assert not [word for word in arguments(result) if "speculative" in word]


def test_sizes_and_names_become_flags_of_sglang() -> None:
    result = planned(
        model={"uri": "hf://Qwen/Qwen3-8B", "revision": "abc", "servedName": "chat", "maxLength": 8192},
        parallelism={"tensor": 4, "expert": True},
    )
    given = {name: flag(result, f"--{name}") for name in ("tp-size", "ep-size", "context-length", "revision")}
    assert given == {"tp-size": "4", "ep-size": "4", "context-length": "8192", "revision": "abc"}
    assert flag(result, "--served-model-name") == "chat"


def test_pods_of_several_nodes_meet_at_their_leader() -> None:
    result = planned(
        parallelism={"tensor": 8, "nodes": 2},
        rollout={"onFailure": "Hold"},
    )
    group = result.child("LeaderWorkerSet")
    assert group is not None
    template = group["spec"]["leaderWorkerTemplate"]  # type: ignore[index]
    leader, worker = (template[f"{role}Template"]["spec"]["containers"][0] for role in ("leader", "worker"))
    for container in (leader, worker):
        assert "--nnodes=2" in container["args"]
        assert "--node-rank=$(LWS_WORKER_INDEX)" in container["args"]
        assert "--dist-init-addr=$(LWS_LEADER_ADDRESS):29501" in container["args"]
    assert ("readinessProbe" in leader, "readinessProbe" in worker) == (True, False)


def test_probes_and_the_drain_of_a_tuned_pod() -> None:
    container = engine_container(planned())
    paths = [container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")]  # type: ignore[index]
    assert paths == ["/health", "/health", "/health?readiness"]
    command = container["lifecycle"]["preStop"]["exec"]["command"]  # type: ignore[index]
    assert command[:3] == ["python3", "-m", "outrider_engine.drain"]
    assert pod_spec(planned())["terminationGracePeriodSeconds"] == 110


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"engine": {"version": "0.5.19"}},
            "SGLang 0.5.19 is not supported; set spec.engine.version to 0.5.20",
        ),
        ({"engine": {"version": "0.5.99"}}, "SGLang 0.5.99 was not checked with Outrider's plugin"),
        ({"engine": {"args": {"tokenizer-worker-num": 4}}}, "spec.engine.args.tokenizer-worker-num"),
        ({"engine": {"args": {"enable-http2": True}}}, "spec.engine.args.enable-http2"),
        ({"engine": {"args": {"attn-dp-size": 2}}}, "spec.engine.args.attn-dp-size: SGLang keeps one K"),
        (
            {"method": "dflash", "speculation": {**HEAD, **OFF}, "resources": {"limits": {"memory": "8Gi"}}},
            "SGLang has method dflash on GPUs only",
        ),
    ],
)
def test_what_sglang_cannot_do_is_refused_with_a_remedy(fields: dict[str, Any], why: str) -> None:
    ((reason, message),) = planned(**fields).problems
    assert reason is DegradedReason.UNSUPPORTED
    assert message.startswith(why)


@pytest.mark.parametrize("name", ["SGLANG_RUST_SERVER", "DUMPER_SERVER_PORT", adaptive.VARIABLE])
def test_an_overlay_cannot_take_a_pod_out_of_outriders_control(name: str) -> None:
    mine = {"name": "engine", "env": [{"name": name, "value": "1"}]}
    ((reason, message),) = planned(podTemplate={"spec": {"containers": [mine]}}).problems
    assert reason is DegradedReason.INVALID_SPEC
    assert f"env[{name}]" in message


def test_an_overlay_adds_plugins_behind_outriders() -> None:
    mine = {"name": "engine", "env": [{"name": "SGLANG_PLUGINS", "value": "mine"}]}
    result = planned(podTemplate={"spec": {"containers": [mine]}})
    assert environment(result)["SGLANG_PLUGINS"] == "outrider,mine"


def test_an_unknown_flag_is_advice_with_the_nearest_one() -> None:
    model = a_sglang_model(engine={"args": {"mem-fraction-statics": 0.8}})
    (advice,) = SGLANG.advice(model.spec, None)
    assert "the parser of SGLang 0.5.23 has no such flag; did you mean mem-fraction-static?" in advice


def test_without_the_plugin_the_advice_says_what_is_not_counted() -> None:
    (advice,) = SGLANG.advice(a_sglang_model("eagle3", {**HEAD, **ROLLOUT}).spec, None)
    assert "the mean accepted length of all positions" in advice


def test_a_download_starts_no_engine() -> None:
    result = a_plan(a_sglang_model(cache={"size": "50Gi"}))
    job = result.child("Job")
    assert job is not None
    (container,) = job["spec"]["template"]["spec"]["containers"]  # type: ignore[index]
    assert container["command"] == ["python3", "-m", "outrider_weights"]
    assert adaptive.VARIABLE not in {variable["name"] for variable in container["env"]}


def test_a_tuned_engine_takes_schedules_and_another_takes_nothing() -> None:
    assert SGLANG.control(a_sglang_model().spec).live_schedule
    assert SGLANG.control(a_sglang_model("eagle3", {**HEAD, **ROLLOUT}).spec) == NO_CONTROL
    assert SGLANG.control(a_sglang_model("ngram", OFF).spec) == NO_CONTROL


def test_batches_are_bounded_by_the_flag_or_by_sglangs_default() -> None:
    assert (SGLANG.largest_batch({}), SGLANG.largest_batch({"max-running-requests": 200})) == (48, 200)
    with pytest.raises(ValueError, match=r"spec\.engine\.args\.max-running-requests must be a whole number"):
        SGLANG.largest_batch({"max-running-requests": 0})


def test_the_last_words_of_sglang_become_a_path_and_a_remedy() -> None:
    log = "OSError: /models/w is not a local folder and is not a valid model identifier listed on the hub"
    assert missing_model(log) == "/models/w"
    said = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    assert "raise spec.engine.args.mem-fraction-static" in str(remedy(said))


def test_flags_are_known_for_every_release() -> None:
    table = SGLANG.flags
    assert all(table.known("speculative-adaptive", release) for release in RELEASES)
    assert not table.known("enable-hicache", "0.5.20")
    assert table.known("enable-hicache", "0.5.23")
    assert {"lora-target-modules", "cuda-graph-bs-decode"} <= table.several
