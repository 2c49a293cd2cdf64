"""What a person says by annotations, and what survives a restart, without load. In this order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.annotations import forget, override, pause, take_back
from tests.cluster.kubectl import Object, condition, get, has_condition, kubectl, namespace, wait_for
from tests.cluster.models import in_force
from tests.cluster.operator_pod import without_operator
from tests.cluster.pair import NAME, TICKS, look, tune
from tests.cluster.sending import Sender

pytestmark = pytest.mark.engine("twin", "starts")

STATIC_TABLE = "3:0,*:5"
static_table = in_force(STATIC_TABLE, replicas=2)


@pytest.fixture(scope="module", autouse=True)
def tuned(pair: Sender) -> Iterator[None]:  # noqa: ARG001 - order
    """The tuner may act, and knows nothing; afterwards as well."""
    tune("Auto")
    yield
    tune("Off")
    wait_for("the table stays", look, static_table, seconds=TICKS)
    kubectl("delete", "configmap", f"{NAME}-tuner", "-n", namespace(), "--ignore-not-found")


@pytest.fixture(autouse=True)
def as_applied(tuned: None) -> Iterator[None]:  # noqa: ARG001 - order
    """Each test says what it wants, and takes it back. What the tuner keeps stays for the next one."""
    wait_for("tuning", look, lambda seen: has_condition(seen, "TuningActive", "True"), seconds=TICKS)
    wait_for("the table is in force", look, static_table, seconds=TICKS)
    yield
    take_back(NAME)
    wait_for("tuning goes on", look, lambda seen: has_condition(seen, "TuningActive", "True"), seconds=TICKS)


def test_an_override_applies_until_it_expires() -> None:
    override(NAME, "*:5", seconds=15)
    seen = wait_for("the override is in force", look, in_force("*:5"), seconds=TICKS)
    assert has_condition(seen, "TuningActive", "False", "Overridden")
    wait_for("the table of before is back", look, static_table, seconds=15 + TICKS)


def test_a_pause_is_reported_and_ended() -> None:
    pause(NAME)
    paused = wait_for(
        "paused", look, lambda seen: has_condition(seen, "TuningActive", "False", "Paused"), seconds=TICKS
    )
    assert static_table(paused)


def test_an_override_that_cannot_be_used_says_what_to_write() -> None:
    override(NAME, "*:99", seconds=600)
    refused = wait_for(
        "refused",
        look,
        lambda seen: has_condition(seen, "TuningActive", "True", "AnnotationRefused"),
        seconds=TICKS,
    )
    found = condition(refused, "TuningActive")
    assert found is not None
    assert "K=99, which the engines did not capture" in found["message"]
    assert static_table(refused)


def test_the_tuner_state_belongs_to_the_model_and_ends_with_its_deletion() -> None:
    kept = wait_for("kept", state, lambda seen: seen is not None, seconds=60)
    assert kept is not None
    (owner,) = kept["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("SpeculativeModel", NAME)
    kubectl("delete", "configmap", f"{NAME}-tuner", "-n", namespace())
    wait_for("told", look, forgotten(f"the ConfigMap {NAME}-tuner was deleted"), seconds=60)
    wait_for("a new one", state, lambda seen: seen is not None, seconds=60)


def test_a_request_to_forget_is_honoured_and_kept_with_what_is_learnt_since() -> None:
    forget(NAME, "first")
    wait_for("told", look, forgotten("outrider.dev/reset-tuner is 'first'"), seconds=TICKS)
    wait_for("kept", state, honours("first"), seconds=60)
    with without_operator():
        pass
    seen = wait_for("another operator tunes", look, static_table, seconds=60)
    assert len([word for word in told_of(seen) if "'first'" in word]) == 1


def test_an_unusable_state_is_reported_and_the_table_stays() -> None:
    wait_for("kept", state, lambda seen: seen is not None, seconds=60)
    with without_operator():
        change = '{"data": {"state.json": "{"}}'
        kubectl("patch", "configmap", f"{NAME}-tuner", "-n", namespace(), "--type", "merge", "-p", change)
    wait_for("told", ignored, lambda seen: seen is not None, seconds=60)
    wait_for("the table stays", look, static_table, seconds=TICKS)


def state() -> Object | None:
    """The ConfigMap with what the tuner knows."""
    return get("configmap", f"{NAME}-tuner")


def honours(request: str) -> Callable[[Object | None], bool]:
    """Whether the stored state was learnt since this request."""

    def holds(seen: Object | None) -> bool:
        return seen is not None and json.loads(seen["data"]["state.json"]).get("forgot") == request

    return holds


def told_of(seen: Object | None) -> list[str]:
    """What the decisions say of being forgotten."""
    decisions = ((seen or {}).get("status") or {}).get("decisions") or []
    return [record["message"] for record in decisions if record["reason"] == "TunerReset"]


def forgotten(why: str) -> Callable[[Object | None], bool]:
    """Whether the newest decision to forget has this cause."""
    return lambda seen: any(why in message for message in told_of(seen)[:1])


def ignored() -> Object | None:
    """The Event about a state that was not used."""
    selector = f"reason=TunerStateIgnored,involvedObject.name={NAME}"
    printed = kubectl("get", "events", "-n", namespace(), "--field-selector", selector, "-o", "name")
    return {"status": printed} if printed.strip() else None
