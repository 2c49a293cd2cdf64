from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from outrider.api.conditions import ConditionType
from outrider.api.reasons import DegradedReason
from outrider.controller.reconcile.readiness import DegradedCause, Workload, blocked, find_trouble, judge
from outrider.sizing.room import Shortage
from tests.unit.controller.factories import (
    INCOMPLETE,
    NO_ACCOUNT,
    NO_KEY,
    NOT_ADAPTIVE,
    NOT_FOUND,
    NOW,
    a_pod,
    a_workload,
    stuck_setup,
    unscheduled,
)

QUOTA = (
    'pods "m-6f7c-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=4, limited: pods=4'
)


STOCK_NOT_FOUND = """\
HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/x'. Use ...
"""


READY_AND_PROGRESSING = {
    "all wanted pods serve": (
        a_workload(a_pod(ready=True)),
        "Ready=True Serving",
        "Progressing=False Complete",
    ),
    "one of two pods serves": (
        a_workload(a_pod("m-1", ready=True), a_pod("m-2"), wanted=2),
        "Ready=True PartiallyServing",
        "Progressing=True RollingOut",
    ),
    "no pod was made yet": (a_workload(), "Ready=False RollingOut", "Progressing=True RollingOut"),
    "the only pod starts": (a_workload(a_pod()), "Ready=False RollingOut", "Progressing=True RollingOut"),
    "only a pod of an older revision serves": (
        a_workload(a_pod("m-1", revision="r1", ready=True), a_pod("m-2")),
        "Ready=False RollingOut",
        "Progressing=True RollingOut",
    ),
    "the new pod serves while the old one leaves": (
        a_workload(a_pod("m-1", revision="r1", leaving=True), a_pod("m-2", ready=True)),
        "Ready=True Serving",
        "Progressing=True RollingOut",
    ),
    "the pods are relaunched, and none of the new ones serves": (
        a_workload(a_pod("m-2"), of_spec=(a_pod("m-1", revision="r1", ready=True),)),
        "Ready=True Serving",
        "Progressing=True RollingOut",
    ),
    "a pod that is being deleted does not serve": (
        a_workload(a_pod(ready=True, leaving=True)),
        "Ready=False RollingOut",
        "Progressing=True RollingOut",
    ),
    "scaled to zero": (a_workload(wanted=0), "Ready=False ScaledToZero", "Progressing=False Complete"),
    "scaled to zero while a pod leaves": (
        a_workload(a_pod(ready=True, leaving=True), wanted=0),
        "Ready=False ScaledToZero",
        "Progressing=True RollingOut",
    ),
    "the rollout gave up": (
        a_workload(a_pod(), stuck=True),
        "Ready=False RollingOut",
        "Progressing=False ProgressDeadlineExceeded",
    ),
}


@pytest.mark.parametrize(
    ("workload", "ready", "progressing"),
    READY_AND_PROGRESSING.values(),
    ids=READY_AND_PROGRESSING.keys(),
)
def test_ready_and_progressing(workload: Workload, ready: str, progressing: str) -> None:
    said = {
        statement.type: f"{statement.type}={statement.status} {statement.reason}"
        for statement in judge(workload, NOW)
    }
    assert (said[ConditionType.READY], said[ConditionType.PROGRESSING]) == (ready, progressing)


def test_what_will_go_less_well_is_told_while_pods_start() -> None:
    starting = replace(a_workload(a_pod()), advice="take a longer drafter")
    told = {one.type: one.message for one in judge(starting, NOW)}
    assert told[ConditionType.PROGRESSING].endswith(". take a longer drafter.")


def test_what_may_not_fit_is_told_while_pods_start_and_is_no_trouble() -> None:
    starting = replace(a_workload(a_pod()), shortage=Shortage(certain=False, message="little room"))
    told = {one.type: one.message for one in judge(starting, NOW)}
    assert "little room" in told[ConditionType.PROGRESSING]
    assert ConditionType.DEGRADED not in told


@pytest.mark.parametrize(("ready", "degraded"), [(False, True), (True, False)])
def test_a_pod_that_serves_proves_an_estimate_wrong(ready: bool, degraded: bool) -> None:
    short = replace(a_workload(a_pod(ready=ready)), shortage=Shortage(certain=True, message="no room"))
    assert (find_trouble(short, NOW) is not None) is degraded


class Case(NamedTuple):
    workload: Workload
    reason: DegradedReason | None
    message: str = ""


TROUBLES = {
    "a pod that starts is no trouble": Case(a_workload(a_pod(waiting=("ContainerCreating", ""))), None),
    "the launcher found no model": Case(
        a_workload(a_pod(ended=(78, NOT_FOUND))), DegradedReason.MODEL_NOT_FOUND, "no model at /models/x"
    ),
    "a missing model is told before the crash loop it causes": Case(
        a_workload(a_pod(ended=(78, NOT_FOUND), restarts=7)), DegradedReason.MODEL_NOT_FOUND
    ),
    "vLLM cannot verify adaptively, which is said before the crash loop it causes": Case(
        a_workload(a_pod(ended=(78, NOT_ADAPTIVE), restarts=7)),
        DegradedReason.VERIFICATION_UNAVAILABLE,
        "FLASH_ATTN cannot.",
    ),
    "the image lacks a package of the plugin, which is said before the crash loop it causes": Case(
        a_workload(a_pod(ended=(78, INCOMPLETE), restarts=7)),
        DegradedReason.ENGINE_IMAGE_INCOMPLETE,
        "no package cryptography.",
    ),
    "an engine that the tuner tries with adaptive verification, and that cannot": Case(
        a_workload(a_pod(ended=(78, NOT_ADAPTIVE), restarts=7, launch="adaptive")), None
    ),
    "an engine that the tuner tries with adaptive verification, and that crashes": Case(
        a_workload(a_pod(ended=(139, "SIGSEGV"), restarts=7, launch="adaptive")),
        DegradedReason.ENGINE_CRASHING,
    ),
    "an engine without the launcher found no model": Case(
        a_workload(a_pod(ended=(1, STOCK_NOT_FOUND))), DegradedReason.MODEL_NOT_FOUND, "no model at /models/x"
    ),
    "the image cannot be pulled": Case(
        a_workload(a_pod(waiting=("ImagePullBackOff", "not found: engine:9"))),
        DegradedReason.IMAGE_PULL_FAILED,
        "not found: engine:9",
    ),
    "the image is missing at the first sight": Case(
        a_workload(a_pod(waiting=("ErrImagePull", "not found: engine:9"))), DegradedReason.IMAGE_PULL_FAILED
    ),
    "the image of an init container cannot be pulled": Case(
        a_workload(a_pod(waiting=("PodInitializing", ""), preparing=("ErrImagePull", "not found: fetch:9"))),
        DegradedReason.IMAGE_PULL_FAILED,
        "not found: fetch:9",
    ),
    "a Secret has no such key": Case(
        a_workload(a_pod(waiting=("CreateContainerConfigError", NO_KEY))),
        DegradedReason.CONTAINER_NOT_CREATED,
        NO_KEY,
    ),
    "pods are refused for their service account": Case(
        a_workload(refused=NO_ACCOUNT), DegradedReason.PODS_NOT_CREATED, NO_ACCOUNT
    ),
    "a quota leaves room for one of two pods": Case(
        a_workload(a_pod(ready=True), wanted=2, refused=QUOTA), DegradedReason.PODS_NOT_CREATED, QUOTA
    ),
    "a pod beyond those that are wanted is not missed": Case(
        a_workload(a_pod(ready=True), refused=QUOTA), None
    ),
    "pods of an older spec were refused": Case(a_workload(refused=QUOTA, generation=2), None),
    "pods are refused until the rollout gave up": Case(
        a_workload(refused=QUOTA, stuck=True), DegradedReason.PODS_NOT_CREATED, QUOTA
    ),
    "no node has room": Case(
        a_workload(a_pod(conditions=unscheduled("0/1 nodes are available: 1 Insufficient cpu."))),
        DegradedReason.UNSCHEDULABLE,
        "Insufficient cpu",
    ),
    "a claim is missing": Case(
        a_workload(a_pod(conditions=unscheduled('persistentvolumeclaim "models" not found'))),
        DegradedReason.VOLUME_NOT_READY,
        '"models" not found',
    ),
    "volumes are not mounted for long": Case(
        a_workload(a_pod(conditions=stuck_setup(91))), DegradedReason.VOLUME_NOT_READY, "91 s"
    ),
    "volumes that were asked for just now are no trouble": Case(
        a_workload(a_pod(conditions=stuck_setup(60))), None
    ),
    "the engine ended twice": Case(
        a_workload(a_pod(ended=(1, "Traceback\nRuntimeError: out of memory\n"), restarts=2)),
        DegradedReason.ENGINE_CRASHING,
        "exit code 1: RuntimeError: out of memory",
    ),
    "an engine that does not know a flag will not learn it": Case(
        a_workload(a_pod(ended=(2, "usage: ...\nerror: unrecognized arguments: --max-nun-seqs 8"))),
        DegradedReason.ENGINE_CRASHING,
        "exit code 2: error: unrecognized arguments: --max-nun-seqs 8",
    ),
    "one end is no crash loop": Case(a_workload(a_pod(ended=(1, "boom"), restarts=1)), None),
    "an engine that crashed and serves again is no trouble": Case(
        a_workload(a_pod(ended=(1, "boom"), restarts=5, ready=True)), None
    ),
    "log lines that look like JSON are not a verdict of the launcher": Case(
        a_workload(a_pod(ended=(1, '{"level": "error"'), restarts=1)), None
    ),
    "the rollout gave up": Case(
        a_workload(a_pod(waiting=("ContainerCreating", "")), stuck=True),
        DegradedReason.DEADLINE_EXCEEDED,
        "ContainerCreating",
    ),
    "a rollout that gave up is forgotten when the next one begins": Case(
        a_workload(a_pod(), stuck=True, generation=2), None
    ),
    "trouble of an older revision does not count": Case(
        a_workload(a_pod("m-1", revision="r1", restarts=9, ended=(1, "boom")), a_pod("m-2")), None
    ),
}


@pytest.mark.parametrize("case", TROUBLES.values(), ids=TROUBLES.keys())
def test_trouble(case: Case) -> None:
    trouble = find_trouble(case.workload, NOW)

    assert (trouble.reason if trouble else None) == case.reason
    assert case.message in (trouble.message if trouble else "")


def test_another_trouble_is_told_when_the_pods_have_none() -> None:
    besides = DegradedCause(DegradedReason.LAUNCH_ORDER_UNREADABLE, "delete it")
    *_, alone = judge(a_workload(a_pod(ready=True)), NOW, besides=besides)
    *_, with_pods = judge(a_workload(a_pod(ended=(78, NOT_FOUND))), NOW, besides=besides)

    assert (alone.reason, with_pods.reason) == (besides.reason, DegradedReason.MODEL_NOT_FOUND)


def test_degraded_is_absent_when_nothing_is_wrong() -> None:
    assert [statement.type for statement in judge(a_workload(a_pod(ready=True)), NOW)] == [
        ConditionType.READY,
        ConditionType.PROGRESSING,
    ]


def test_names_the_pod_in_trouble() -> None:
    trouble = find_trouble(a_workload(a_pod("m-abc", ended=(78, NOT_FOUND))), NOW)

    assert trouble is not None
    assert trouble.message.startswith("Pod m-abc: ")


def test_a_blocked_model_says_why_in_every_condition() -> None:
    statements = blocked(DegradedCause(DegradedReason.NAME_TAKEN, "Service m exists"))

    assert {f"{statement.type}={statement.status}" for statement in statements} == {
        "Ready=False",
        "Progressing=False",
        "Degraded=True",
    }
    assert all("Service m exists" in statement.message for statement in statements)


def test_a_runtime_that_cannot_mount_images_is_told_of_in_place_of_its_own_words() -> None:
    words = 'failed to generate container spec: failed to mkdir "": mkdir : no such file or directory'
    trouble = find_trouble(a_workload(a_pod(waiting=("CreateContainerError", words))), NOW)
    assert trouble is not None
    assert trouble.reason is DegradedReason.CLUSTER_TOO_OLD
    assert "containerd 2.1" in trouble.message


def test_the_last_words_of_a_pod_are_text_alone() -> None:
    words = "oops \x1b]0;owned\x07\x1b[2J\x1b[31mall is well"
    crashed = a_pod(ended=(1, words), restarts=3)

    found = judge(a_workload(crashed), NOW)

    assert all(statement.message.isprintable() for statement in found)
    assert any("all is well" in statement.message for statement in found)
