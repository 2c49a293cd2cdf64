"""What a rollout remembers, step by step, and what becomes of the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from outrider.api.launch import DrafterVerdict, Launch, LaunchOrder
from outrider.api.rollout import OnFailure
from outrider.plan import plan
from outrider.plan.planner import Plan
from outrider.plan.rollout import (
    ANNOTATION,
    Failed,
    Good,
    Memory,
    Seen,
    Target,
    Trial,
    followed,
    remembering,
    returning,
    without_canary,
)
from outrider.plan.settings import PlanSettings
from outrider.runtimes.engine_launch import SCHEDULE_FILE
from outrider_protocol.schedule import Schedule
from tests.unit.plan.factories import KEYS, a_model, a_plan

OLD = Target("r1", "s1", "8:3,*:0", OnFailure.ROLL_BACK)
NEW = Target("r2", "s2", "8:5,*:0", OnFailure.ROLL_BACK)
WHY = ("EngineCrashing", "pod m-1: boom")
OLD_IS_GOOD = Memory(good=Good(revision="r1", spec="s1", table="8:3,*:0"))
SERVES, STARTS, STUCK = Seen("r1", complete=True), Seen("r2", complete=False), Seen("r2", False, WHY)
TAKEN_BACK = followed(OLD_IS_GOOD, NEW, STUCK)


def test_a_revision_is_good_once_all_its_pods_are_available() -> None:
    assert followed(Memory(), OLD, Seen("r1", complete=False)) == Memory()
    assert followed(Memory(), OLD, SERVES) == OLD_IS_GOOD


def test_what_served_before_anybody_remembered_is_good_when_another_spec_comes() -> None:
    known = followed(Memory(), NEW, Seen("r1", complete=True, table="8:1,*:0"))
    assert known.good == Good(revision="r1", table="8:1,*:0")
    assert followed(known, NEW, STUCK).returned == known.good


def test_a_rollout_that_is_stuck_returns_to_the_last_good_revision() -> None:
    assert TAKEN_BACK.returned == OLD_IS_GOOD.good
    assert TAKEN_BACK.failed == Failed(spec="s2", reason=WHY[0], message=WHY[1])


@pytest.mark.parametrize(
    ("memory", "target", "seen"),
    [
        pytest.param(OLD_IS_GOOD, NEW, STARTS, id="while it has time"),
        pytest.param(Memory(), NEW, STUCK, id="of a model that never served"),
        pytest.param(
            OLD_IS_GOOD, replace(NEW, on_failure=OnFailure.HOLD), STUCK, id="where the spec holds it"
        ),
        pytest.param(OLD_IS_GOOD, NEW, replace(STUCK, revision="r1"), id="of a spec that is not out yet"),
        pytest.param(
            OLD_IS_GOOD, replace(NEW, spec="s1"), STUCK, id="of another launch, which is the tuner's"
        ),
    ],
)
def test_nothing_returns(memory: Memory, target: Target, seen: Seen) -> None:
    assert followed(memory, target, seen).returned is None


def test_it_stays_returned_however_often_it_is_asked() -> None:
    again = TAKEN_BACK
    for seen in (Seen("r1", complete=False), SERVES, SERVES, Seen("r1", False, WHY)):
        again = followed(again, NEW, seen)
        assert again == TAKEN_BACK


def test_a_launch_that_the_tuner_orders_meanwhile_does_not_try_the_spec_again() -> None:
    assert followed(TAKEN_BACK, replace(NEW, revision="r2-no-drafter"), SERVES).returned is not None


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(Target("r3", "s3", "", OnFailure.ROLL_BACK), id="another spec"),
        pytest.param(OLD, id="the one before"),
        pytest.param(replace(NEW, on_failure=OnFailure.HOLD), id="the same, that is to be held now"),
    ],
)
def test_it_ends_when_the_spec_changes(target: Target) -> None:
    after = followed(TAKEN_BACK, target, SERVES)
    assert after.failed is None
    assert after.good is not None
    assert after.good.revision == "r1"


def test_a_second_failure_returns_to_the_same_revision() -> None:
    third = Target("r3", "s3", "", OnFailure.ROLL_BACK)
    tried = followed(TAKEN_BACK, third, SERVES)
    assert followed(tried, third, Seen("r3", False, WHY)).returned == OLD_IS_GOOD.good


def test_a_spec_that_came_out_in_the_end_is_good() -> None:
    late = followed(TAKEN_BACK, NEW, Seen("r2", complete=True))
    assert (late.failed, late.good) == (None, Good(revision="r2", spec="s2", table="8:5,*:0"))


def test_a_rollout_stays_in_place_until_it_is_complete() -> None:
    begun = followed(OLD_IS_GOOD, NEW, replace(STARTS, no_room=True))
    assert followed(begun, NEW, STARTS).in_place
    assert not followed(begun, NEW, Seen("r2", complete=True)).in_place


def test_a_rollout_in_place_that_fails_returns_in_place() -> None:
    begun = followed(OLD_IS_GOOD, NEW, replace(STARTS, no_room=True))
    back = followed(begun, NEW, STUCK)
    assert back.returned is not None
    assert back.in_place


TRIES = {"besides": "same", "tries_drafters": True, "keeps_tried": True}
FORMER = Memory(good=Good(revision="s1", spec="s1", table="8:3,*:0", besides="same"))
DRAFTER = replace(NEW, revision="s2", **TRIES)  # type: ignore[arg-type]
KEPT = Seen("s1", complete=True)
TRIED = followed(FORMER, DRAFTER, KEPT)
PROMOTED = followed(TRIED, DRAFTER, KEPT, DrafterVerdict("s2", promoted=True))
SLOWER = followed(TRIED, DRAFTER, KEPT, DrafterVerdict("s2", promoted=False, why="-20 %"))


def test_a_new_drafter_is_tried_while_the_replicas_keep_the_one_before() -> None:
    assert (TRIED.trying, TRIED.kept, TRIED.returned) == (True, FORMER.good, None)
    assert TRIED.before_trial == "s1"
    assert followed(TRIED, DRAFTER, KEPT) == TRIED
    assert followed(TRIED, DRAFTER, Seen("s1", complete=False)) == TRIED


@pytest.mark.parametrize(
    ("memory", "target", "seen"),
    [
        pytest.param(FORMER, replace(DRAFTER, besides="other"), KEPT, id="more than the drafter changed"),
        pytest.param(FORMER, replace(DRAFTER, tries_drafters=False), KEPT, id="not allowed"),
        pytest.param(FORMER, replace(DRAFTER, revision="no-drafter"), KEPT, id="another launch was ordered"),
        pytest.param(FORMER, DRAFTER, Seen("s0", complete=False), id="another rollout runs"),
        pytest.param(FORMER, replace(DRAFTER, revision="s1", spec="s1"), KEPT, id="nothing changed"),
        pytest.param(OLD_IS_GOOD, replace(DRAFTER, besides=""), SERVES, id="the spec before is unknown"),
        pytest.param(Memory(), DRAFTER, Seen("", complete=False), id="the first rollout"),
        pytest.param(TRIED, replace(DRAFTER, tries_drafters=False), KEPT, id="one replica is left"),
    ],
)
def test_it_is_rolled_out_without_a_trial(memory: Memory, target: Target, seen: Seen) -> None:
    after = followed(memory, target, seen)
    assert (after.trial, after.kept) == (None, None)


def test_a_promoted_drafter_is_rolled_out_until_all_replicas_have_it() -> None:
    assert (PROMOTED.trying, PROMOTED.kept, PROMOTED.before_trial) == (False, None, "s1")
    half = followed(PROMOTED, DRAFTER, Seen("s2", complete=False))
    assert half == PROMOTED
    done = followed(half, DRAFTER, Seen("s2", complete=True))
    assert done == Memory(good=Good(revision="s2", spec="s2", table="8:5,*:0", besides="same"))


def test_a_promoted_drafter_that_fails_on_the_replicas_returns_as_any_rollout() -> None:
    back = followed(PROMOTED, DRAFTER, Seen("s2", False, WHY))
    assert (back.returned, back.trial) == (FORMER.good, None)


def test_a_slower_drafter_is_not_rolled_out_nor_tried_again() -> None:
    assert SLOWER.failed == Failed(spec="s2", reason="DrafterSlower", message="-20 %", tried=True)
    assert (SLOWER.kept, SLOWER.before_trial) == (FORMER.good, "s1")
    for target in (DRAFTER, replace(DRAFTER, on_failure=OnFailure.HOLD)):
        assert followed(SLOWER, target, KEPT) == SLOWER


def test_fewer_replicas_do_not_roll_out_a_slower_drafter() -> None:
    assert followed(SLOWER, replace(DRAFTER, tries_drafters=False), KEPT) == SLOWER


def test_a_slower_drafter_is_rolled_out_where_no_canary_is_allowed() -> None:
    anyway = replace(DRAFTER, tries_drafters=False, keeps_tried=False)
    assert followed(SLOWER, anyway, KEPT) == FORMER


def test_the_drafter_before_in_the_spec_ends_a_trial() -> None:
    before = replace(OLD, revision="s1", **TRIES)  # type: ignore[arg-type]
    for memory in (TRIED, SLOWER):
        assert followed(memory, before, KEPT) == FORMER


def test_a_third_drafter_begins_its_own_trial_and_ignores_the_result_of_the_second() -> None:
    third = replace(DRAFTER, revision="s3", spec="s3")
    after = followed(TRIED, third, KEPT, DrafterVerdict("s2", promoted=True))
    assert after.trial == Trial(spec="s3")


def test_a_canary_that_does_not_start_ends_the_trial() -> None:
    stuck = replace(KEPT, canary_stuck=WHY)
    failed = followed(TRIED, DRAFTER, stuck)
    assert failed.failed == Failed(spec="s2", reason=WHY[0], message=WHY[1], tried=True)
    held = replace(DRAFTER, on_failure=OnFailure.HOLD)
    assert followed(TRIED, held, stuck) == TRIED
    assert followed(failed, held, KEPT) == TRIED


@pytest.mark.parametrize(
    "memory", [Memory(), OLD_IS_GOOD, TAKEN_BACK, Memory(in_place=True), TRIED, PROMOTED, SLOWER]
)
def test_a_memory_is_read_as_it_was_written(memory: Memory) -> None:
    assert Memory.of({ANNOTATION: str(memory)} if str(memory) else {}) == memory


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"good": 5}', '{"good": {"revision": 1}}'])
def test_a_memory_that_somebody_spoilt_is_none(text: str) -> None:
    assert Memory.of({ANNOTATION: text}) == Memory()


TEMPLATE: dict[str, Any] = {
    "metadata": {
        "creationTimestamp": None,
        "labels": {"outrider.dev/revision": "r1", "pod-template-hash": "abc"},
        "annotations": {"a": "b"},
    },
    "spec": {"containers": [{"name": "engine", "image": "good:1"}]},
}


def returned(wanted: Plan) -> Plan:
    good = Good(revision="r1", table="8:3,*:0")
    return returning(wanted, good, TEMPLATE, Schedule.parse(good.table))


def test_the_pods_of_the_good_revision_are_planned_as_their_deployment_made_them() -> None:
    wanted = a_plan(a_model(replicas=3))
    after = returned(wanted)
    deployment, before = after.child("Deployment"), wanted.child("Deployment")
    assert deployment is not None
    assert before is not None
    assert deployment == {**before, "spec": {**before["spec"], "template": deployment["spec"]["template"]}}  # type: ignore[dict-item, index]
    assert deployment["spec"]["template"] == {  # type: ignore[index]
        "metadata": {"labels": {"outrider.dev/revision": "r1"}, "annotations": {"a": "b"}},
        "spec": TEMPLATE["spec"],
    }
    assert after.revisions == {"r1"}


def test_engines_of_the_good_revision_begin_with_their_own_table() -> None:
    tables = returned(a_plan(a_model())).child("ConfigMap")
    assert tables is not None
    assert tables["data"][SCHEDULE_FILE] == (  # type: ignore[index]
        '[{"maxBatchSize":8,"numSpeculativeTokens":3},{"numSpeculativeTokens":0}]'
    )


def test_a_canary_of_the_spec_that_failed_goes() -> None:
    model = a_model(replicas=2, speculation={"tuning": {"canary": "Allow"}})
    wanted = plan(model, settings=PlanSettings(), keys=KEYS, order=LaunchOrder(canary=Launch(drafter=False)))
    after = without_canary(returned(wanted))
    assert len(wanted.revisions) == 2
    assert [child["kind"] for child in after.children].count("Deployment") == 1
    assert after.revisions == {"r1"}


def test_a_rollout_in_place_wants_no_pod_above_the_wanted_number() -> None:
    deployment = remembering(a_plan(a_model(replicas=2)), Memory(in_place=True)).child("Deployment")
    assert deployment is not None
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}  # type: ignore[index]


def test_a_plan_without_anything_to_remember_is_as_it_was() -> None:
    wanted = a_plan(a_model())
    assert remembering(wanted, Memory()) == wanted


@pytest.mark.parametrize(
    ("spec", "budget"),
    [
        ({"replicas": 2}, True),
        ({"replicas": 1}, False),
        ({"replicas": 0}, False),
        ({"replicas": 2, "rollout": {"disruptionBudget": "Never"}}, False),
    ],
)
def test_two_replicas_or_more_have_a_disruption_budget(spec: dict[str, Any], budget: bool) -> None:
    assert (a_plan(a_model(**spec)).child("PodDisruptionBudget") is not None) is budget


def test_a_disruption_budget_never_holds_a_node_for_an_engine_that_does_not_serve() -> None:
    found = a_plan(a_model(replicas=2)).child("PodDisruptionBudget")
    assert found is not None
    assert found["spec"] == {
        "maxUnavailable": 1,
        "selector": {"matchLabels": {"outrider.dev/model": "qwen"}},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
