from __future__ import annotations

from typing import Any

import pytest

from outrider.api.annotations import Instructions
from outrider.api.launch import Launch, LaunchOrder, RelaunchPolicy
from outrider.api.resource import SpeculativeModel
from outrider.api.tuning import Actuation, Canary, StructuralOff, TuningMode
from outrider.cluster.resources import CONFIG_MAPS
from outrider.controller import store_fleet
from outrider.controller.fleet import TunedModel
from outrider.controller.store import Reconciled, Store
from outrider.controller.store_fleet import StoreFleet
from outrider.controller.stored import Key
from outrider.engine.signing import SigningKey
from outrider.plan.names import CONTROL_PORT_NAME
from outrider_protocol.schedule import Schedule
from tests.unit.controller.factories import (
    NOT_ADAPTIVE,
    REVISION,
    a_launch_order,
    a_raw_model,
    a_raw_pod,
    ago,
)

KEY = SigningKey.generate()


def tuned(
    model: dict[str, Any],
    *pods: dict[str, Any],
    key: SigningKey | None = KEY,
    order: dict[str, Any] | None = None,
) -> list[TunedModel]:
    store = Store()
    store.models.put(model)
    if order is not None:
        store.children[CONFIG_MAPS].put(order)
    for pod in pods:
        store.pods.put(pod)
    if key is not None:
        store.reconciled[Key("default", "m")] = Reconciled(key)
    return StoreFleet(store).tuned_models()


def both_tuned(odd: dict[str, Any]) -> list[TunedModel]:
    """What is tuned of an odd model `a` and a healthy one `b`."""
    store = Store()
    store.models.put(odd)
    store.models.put(a_raw_model("b"))
    store.reconciled |= {Key("default", name): Reconciled(KEY) for name in ("a", "b")}
    return StoreFleet(store).tuned_models()


def urls(models: list[TunedModel]) -> list[str]:
    return [pod.address.url for model in models for pod in model.pods]


def speculation(**fields: Any) -> dict[str, Any]:
    return {"method": "ngram", "numSpeculativeTokens": 3, **fields}


def test_gives_the_tuning_loop_what_the_spec_says() -> None:
    model = a_raw_model(
        speculation=speculation(candidates=[0, 1, 3], tuning={"mode": "Observe"}),
        engine={"image": "engine:1", "args": {"max-num-seqs": 64}},
    )
    (found,) = tuned(model)

    assert (found.mode, found.policy.candidates, found.policy.max_num_seqs) == (
        TuningMode.OBSERVE,
        (0, 1, 3),
        64,
    )
    assert str(found.static) == "32:1,*:0"


@pytest.mark.parametrize(
    ("method", "tuning", "tax"),
    [
        ("eagle3", {}, 0.10),
        ("draft_model", {}, 0.05),
        ("draft_model", {"k0": "Sync"}, 0.10),
        ("draft_model", {"actuation": "Rollout"}, 0.10),
        ("ngram", {}, 0.05),
    ],
)
def test_a_drafter_that_makes_no_pass_while_k_is_0_is_taken_to_cost_less_then(
    method: str, tuning: dict[str, Any], tax: float
) -> None:
    drafter = {} if method == "ngram" else {"drafter": {"uri": "hf://o/d"}}
    (found,) = tuned(a_raw_model(speculation=speculation(method=method, tuning=tuning, **drafter)))
    assert found.policy.estimation.k0_tax == tax


def test_where_the_engine_chooses_its_largest_batch_there_are_bins_for_all_that_it_may_choose() -> None:
    (given,) = tuned(a_raw_model(engine={"image": "engine:1", "args": {"max-num-seqs": 64}}))
    (left,) = tuned(a_raw_model(engine={"image": "engine:1"}))

    assert (given.max_num_seqs, given.policy.max_num_seqs) == (64, 64)
    assert (left.max_num_seqs, left.policy.max_num_seqs) == (None, 1024)


def test_data_parallel_ranks_are_tuned_by_launches_of_one_k() -> None:
    rolled = speculation(tuning={"actuation": "Rollout"})
    (found,) = tuned(a_raw_model(speculation=rolled, parallelism={"data": 2}))
    (one,) = tuned(a_raw_model(speculation=rolled))

    assert (found.relaunching.one_k, found.ranks) == (True, 2)
    assert (one.relaunching.one_k, one.ranks) == (False, 1)
    assert str(found.static) == "*:2"


def test_a_launch_of_k_0_without_drafter_pays_no_tax() -> None:
    rolled = speculation(tuning={"actuation": "Rollout"})
    (found,) = tuned(a_raw_model(speculation=rolled, parallelism={"data": 2}))

    assert found.policy.estimation.k0_tax == 0.0


def test_data_parallel_ranks_without_rollout_are_not_tuned() -> None:
    assert tuned(a_raw_model(speculation=speculation(tuning={"mode": "Off"}), parallelism={"data": 2})) == []


def test_ready_pods_are_reached_at_their_own_address() -> None:
    assert urls(tuned(a_raw_model(), a_raw_pod(ready=True, ip="10.0.0.7"))) == ["http://10.0.0.7:8000"]


def test_a_pod_with_a_control_port_is_asked_there_and_one_of_before_where_it_serves() -> None:
    new, old = a_raw_pod("m-1", ready=True, ip="10.0.0.7"), a_raw_pod("m-2", ready=True, ip="10.0.0.8")
    new["spec"]["containers"][0]["ports"].append({"name": CONTROL_PORT_NAME, "containerPort": 8091})
    (found,) = tuned(a_raw_model(), new, old)

    assert {pod.name: pod.address.control_url for pod in found.pods} == {
        "m-1": "http://10.0.0.7:8091",
        "m-2": None,
    }
    assert {pod.name: pod.address.url for pod in found.pods} == {
        "m-1": "http://10.0.0.7:8000",
        "m-2": "http://10.0.0.8:8000",
    }


def test_an_address_of_ipv6_is_bracketed() -> None:
    assert urls(tuned(a_raw_model(), a_raw_pod(ready=True, ip="fd00::7"))) == ["http://[fd00::7]:8000"]


def test_a_pod_that_is_not_ready_is_left_alone() -> None:
    assert urls(tuned(a_raw_model(), a_raw_pod())) == []


def test_a_pod_that_comes_up_is_told_apart_from_those_that_serve() -> None:
    (found,) = tuned(a_raw_model(), a_raw_pod("m-1", ready=True), a_raw_pod("m-2"))
    assert [pod.name for pod in found.pods] == ["m-1"]
    assert [pod.name for pod in found.starting_pods] == ["m-2"]


def test_a_pod_that_goes_does_not_come() -> None:
    (found,) = tuned(a_raw_model(), a_raw_pod("m-1", leaving=True))
    assert found.starting_pods == ()


def test_a_pod_without_an_address_is_left_alone() -> None:
    assert urls(tuned(a_raw_model(), a_raw_pod(ready=True, ip=""))) == []


def test_a_model_that_this_process_has_not_reconciled_is_left_alone() -> None:
    assert tuned(a_raw_model(), a_raw_pod(ready=True), key=None) == []


def test_the_private_key_is_in_no_text_of_a_model() -> None:
    assert KEY.private_pem.splitlines()[1] not in repr(tuned(a_raw_model(), a_raw_pod(ready=True)))


def test_a_pod_is_asked_by_what_is_signed_for_its_uid() -> None:
    pods = (a_raw_pod("m-1", ready=True), a_raw_pod("m-2", ready=True))
    (found,) = tuned(a_raw_model(), *pods)

    assert [(pod.address.pod_uid, pod.address.key) for pod in found.pods] == [
        (pod["metadata"]["uid"], KEY) for pod in pods
    ]
    assert len({pod.address.pod_uid for pod in found.pods}) == 2


def test_a_method_whose_k_is_fixed_is_not_tuned() -> None:
    static = speculation(method="suffix", tuning={"mode": "Off"})

    assert tuned(a_raw_model(speculation=static)) == []


def test_an_engine_that_keeps_one_k_under_data_parallelism_is_not_tuned() -> None:
    off = speculation(schedule=[{"numSpeculativeTokens": 3}], tuning={"mode": "Off"})

    assert tuned(a_raw_model(speculation=off, parallelism={"data": 2})) == []


def test_a_model_of_a_single_candidate_is_not_tuned() -> None:
    off = speculation(candidates=[3], tuning={"mode": "Off"})

    assert tuned(a_raw_model(speculation=off)) == []


def test_an_unreadable_model_is_not_tuned() -> None:
    assert tuned(a_raw_model(replicas="many")) == []


def test_a_flag_that_cannot_be_read_does_not_stop_the_other_models() -> None:
    odd = a_raw_model("a", engine={"image": "engine:1", "args": {"max-num-seqs": "many"}})

    assert [model.name for model in both_tuned(odd)] == ["b"]


@pytest.mark.parametrize("flag", ["max-num-seqs", "max-num-batched-tokens", "max_num_batched_tokens"])
def test_a_number_of_thousands_of_digits_does_not_stop_the_other_models(flag: str) -> None:
    odd = a_raw_model("a", engine={"image": "engine:1", "args": {flag: "9" * 4_301}})

    assert [model.name for model in both_tuned(odd)] == ["b"]


def test_a_defect_that_one_model_brings_to_light_does_not_stop_the_other_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(annotations: dict[str, str], **_: object) -> Instructions:
        if annotations:
            raise OverflowError("date value out of range")
        return Instructions()

    monkeypatch.setattr(store_fleet, "read_instructions", read)
    odd = a_raw_model("a")
    odd["metadata"]["annotations"] = {"outrider.dev/paused": "true"}

    assert [model.name for model in both_tuned(odd)] == ["b"]


def test_a_model_that_cannot_be_tuned_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    store.models.put(a_raw_model(engine={"image": "engine:1", "args": {"max-num-seqs": "many"}}))
    store.reconciled[Key("default", "m")] = Reconciled(KEY)
    fleet = StoreFleet(store)
    fleet.tuned_models()
    fleet.tuned_models()

    assert [record.message.split(":")[0] for record in caplog.records] == ["default/m is not tuned"]


def test_nothing_is_kept_of_models_that_could_not_be_tuned_and_are_gone() -> None:
    store = Store()
    fleet = StoreFleet(store)
    for name in map("m-{}".format, range(100)):
        raw = a_raw_model(name, engine={"image": "engine:1", "args": {"max-num-seqs": "many"}})
        store.models.put(raw)
        store.reconciled[Key("default", name)] = Reconciled(KEY)
    fleet.tuned_models()
    assert len(fleet._failing) == 100

    store.models.replace([], 10_000, within=None)
    fleet.tuned_models()
    assert fleet._failing == {}


def test_the_token_budget_of_a_step_is_known_where_it_was_set() -> None:
    engine = {"image": "engine:1", "args": {"max_num_batched_tokens": 4096}}
    (given,), (left_out,) = tuned(a_raw_model(engine=engine)), tuned(a_raw_model())

    assert (given.max_num_batched_tokens, left_out.max_num_batched_tokens) == (4096, None)


def override(table: str) -> dict[str, str]:
    """The annotations that set a table."""
    return {
        "outrider.dev/schedule-override": table,
        "outrider.dev/schedule-override-until": "2026-01-31T18:00:00Z",
    }


def test_a_person_speaks_by_annotations() -> None:
    model = a_raw_model(speculation=speculation(candidates=[0, 1, 3]))
    model["metadata"]["annotations"] = {"outrider.dev/paused": "true", **override("8:3,*:0")}
    (found,) = tuned(model)

    assert found.instructions.paused
    assert found.instructions.override is not None
    assert str(found.instructions.override.schedule) == "8:3,*:0"


def test_a_table_beyond_the_candidates_is_refused() -> None:
    model = a_raw_model(speculation=speculation(candidates=[0, 1, 3]))
    model["metadata"]["annotations"] = override("8:2,*:0")
    (found,) = tuned(model)

    assert found.instructions.override is None
    assert "use 0, 1, 3" in str(found.instructions.refused)


def test_an_override_of_stock_engines_is_refused() -> None:
    model = a_raw_model(speculation=speculation(tuning={"actuation": "Rollout"}))
    model["metadata"]["annotations"] = override("*:0")
    (found,) = tuned(model)

    assert found.instructions.override is None
    assert "needs tuning.actuation: Live" in str(found.instructions.refused)


def test_what_the_tuner_may_order_is_what_the_spec_allows() -> None:
    tuning = {"structuralOff": "Allow", "canary": "Allow", "mode": "Auto"}
    model = a_raw_model(speculation=speculation(tuning=tuning), replicas=3)
    (found,) = tuned(model)

    assert found.relaunching == RelaunchPolicy.of(SpeculativeModel.of_stored(model).spec)


def test_a_model_that_is_being_deleted_is_not_tuned() -> None:
    model = a_raw_model()
    model["metadata"]["deletionTimestamp"] = ago(1)

    assert tuned(model) == []


def test_what_the_tuner_may_do_to_the_launch_is_in_the_spec() -> None:
    allowed = {"structuralOff": "Allow", "canary": "Allow", "relaunchInterval": "10m"}
    model = a_raw_model(
        speculation=speculation(tuning=allowed), replicas=3, rollout={"progressDeadline": "5m"}
    )
    (found,) = tuned(model)

    assert found.replicas == 3
    assert found.relaunching == RelaunchPolicy(
        Actuation.LIVE, StructuralOff.ALLOW, Canary.ALLOW, interval_seconds=600.0, deadline_seconds=900.0
    )


def test_stock_engines_are_tuned() -> None:
    model = a_raw_model(speculation=speculation(tuning={"actuation": "Rollout"}))
    (found,) = tuned(model, a_raw_pod(ready=True, launch="8:3,*:0"))

    (pod,) = found.pods
    assert pod.launch == Launch(schedule=Schedule.parse("8:3,*:0"))


def test_pods_tell_how_they_were_launched() -> None:
    pods = (
        a_raw_pod("m-1", ready=True),
        a_raw_pod("m-2", ready=True, launch="no-drafter"),
        a_raw_pod("m-3", ready=True, launch="no-drafter", canary=True),
        a_raw_pod("m-4", ready=True, launch="by hand"),
    )
    (found,) = tuned(a_raw_model(), *pods)

    without = Launch(drafter=False)
    assert [pod.launch for pod in found.pods] == [Launch(), without, without, Launch()]
    assert [pod.canary for pod in found.pods] == [False, False, True, False]


def test_a_trial_of_adaptive_verification_that_engines_refuse_is_known() -> None:
    serving = a_raw_pod("m-1", ready=True)
    refused = a_raw_pod("m-2", ended=(78, NOT_ADAPTIVE), launch="adaptive", canary=True)
    leaving = a_raw_pod("m-2", ended=(78, NOT_ADAPTIVE), launch="adaptive", canary=True, leaving=True)
    ((known,), (over,)) = (tuned(a_raw_model(), serving, pod) for pod in (refused, leaving))

    assert known.adaptive_refusal == "FLASH_ATTN cannot."
    assert over.adaptive_refusal == ""


def test_the_stored_order_is_known() -> None:
    model = a_raw_model(speculation=speculation(tuning={"structuralOff": "Allow"}))
    (found,) = tuned(model, order=a_launch_order("no-drafter"))

    assert found.order == LaunchOrder(Launch(drafter=False))


def test_an_order_that_the_spec_does_not_allow_is_none() -> None:
    (found,) = tuned(a_raw_model(), order=a_launch_order("no-drafter"))

    assert found.order == LaunchOrder()


def test_an_unreadable_order_is_none() -> None:
    (found,) = tuned(a_raw_model(), order=a_launch_order("fast"))

    assert found.order == LaunchOrder()


def test_an_order_that_somebody_else_wrote_is_none() -> None:
    model = a_raw_model(speculation=speculation(tuning={"structuralOff": "Allow"}))
    (found,) = tuned(model, order=a_launch_order("no-drafter", owner=None))

    assert found.order == LaunchOrder()


@pytest.mark.parametrize(("wanted", "expected"), [({REVISION}, "0.31.0"), ({"another"}, None), (set(), None)])
def test_the_release_of_the_spec_counts_for_pods_of_its_revision_only(
    wanted: set[str], expected: str | None
) -> None:
    store = Store()
    store.models.put(a_raw_model(engine={"image": "engine:1", "version": "0.31.0"}))
    store.pods.put(a_raw_pod(ready=True))
    store.reconciled[Key("default", "m")] = Reconciled(KEY, frozenset(wanted))
    (found,) = StoreFleet(store).tuned_models()
    assert [pod.wanted_version for pod in found.pods] == [expected]


def test_a_model_is_computed_again_only_if_one_of_its_objects_changed() -> None:
    store = Store()
    store.models.put(a_raw_model())
    store.reconciled[Key("default", "m")] = Reconciled(KEY)
    fleet = StoreFleet(store)
    (first,) = fleet.tuned_models()
    assert fleet.tuned_models() == [first]
    assert fleet.tuned_model(first.key) is first

    for change in (
        lambda: store.models.put(a_raw_model(version=2, replicas=2)),
        lambda: store.pods.put(a_raw_pod()),
        lambda: store.pods.put(a_raw_pod(version=2, ready=False)),
        lambda: store.children[CONFIG_MAPS].put(a_launch_order("eager")),
        lambda: store.reconciled.update({first.key: Reconciled(SigningKey.generate())}),
    ):
        before = fleet.tuned_model(first.key)
        change()
        after = fleet.tuned_model(first.key)
        assert after is not before
    store.models.drop(next(iter(store.models)).metadata)
    assert fleet.tuned_models() == []
