"""How the control is attached to vLLM's classes, on stand-ins of the same shape."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from outrider_engine.attach import STATIC_SCHEDULE_VARIABLE, attach
from outrider_engine.control import Push
from outrider_engine.core import EngineCoreControl
from outrider_engine.plugin import register
from tests.unit.engine_plugin.factories import LAUNCHED, MAX_NUM_SEQS, STATIC, a_push


def some_config(**overrides: object) -> SimpleNamespace:
    values: dict[str, object] = {
        "speculative_config": SimpleNamespace(method="draft_model", num_speculative_tokens=5),
        "scheduler_config": SimpleNamespace(max_num_seqs=MAX_NUM_SEQS),
        "parallel_config": SimpleNamespace(data_parallel_size=1),
        "use_v2_model_runner": False,
    }
    return SimpleNamespace(**(values | overrides))


class Engine:
    """Fresh stand-ins per test, since attaching changes the classes."""

    def __init__(self, vllm_config: object) -> None:
        class Scheduler:
            def __init__(self, vllm_config: object) -> None:
                self.vllm_config = vllm_config
                self.dynamic_sd_lookup: list[int] | None = list(LAUNCHED)

            def schedule(self, throttle_prefills: bool = False) -> tuple[list[int] | None, bool]:
                """What a step would use."""
                return self.dynamic_sd_lookup, throttle_prefills

        class AsyncScheduler(Scheduler):
            pass

        class EngineCore:
            def __init__(self) -> None:
                self.scheduler = AsyncScheduler(vllm_config)

        class EngineCoreProc(EngineCore):
            pass

        self.scheduler_class, self.engine_core_class = Scheduler, EngineCore
        self.attach()
        self.core: Any = EngineCoreProc()

    def attach(self) -> None:
        attach(self.engine_core_class, self.scheduler_class)

    def put(self, push: Push) -> dict[str, Any]:
        answer: dict[str, Any] = self.core.outrider_put_schedule(push.to_wire())
        return answer

    def step_lookup(self) -> list[int]:
        lookup, _ = self.core.scheduler.schedule(True)
        return list(lookup)


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("vllm")
    module.__version__ = "0.32.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)


@pytest.fixture(autouse=True)
def static_schedule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(STATIC.to_wire()))
    monkeypatch.setenv(STATIC_SCHEDULE_VARIABLE, str(path))
    return path


def test_the_static_table_is_in_force_at_the_first_step() -> None:
    assert Engine(some_config()).step_lookup() == list(STATIC.dense(MAX_NUM_SEQS))


def test_the_utility_methods_set_and_tell_the_table() -> None:
    engine = Engine(some_config())
    answer = engine.put(a_push(term=2, epoch=3))
    assert answer == {"state": answer["state"]}
    told = engine.core.outrider_get_state()
    assert (told["term"], told["epoch"], told["schedule"]) == (2, 3, [{"numSpeculativeTokens": 3}])
    assert (told["engineVersion"], told["method"], told["runner"]) == ("0.32.0", "draft_model", "V1")
    assert engine.step_lookup() == [0] + [3] * MAX_NUM_SEQS


def test_the_answer_crosses_a_process_border() -> None:
    answer = Engine(some_config()).put(a_push())
    assert json.loads(json.dumps(answer)) == answer


def test_a_refusal_is_an_answer_and_no_exception() -> None:
    engine = Engine(some_config())
    engine.put(a_push(epoch=2))
    assert engine.put(a_push(epoch=1))["error"]["reason"] == "StaleEpoch"
    assert engine.core.outrider_put_schedule({})["error"]["reason"] == "Malformed"


def test_arguments_and_result_of_a_step_pass_through() -> None:
    engine = Engine(some_config())
    assert engine.core.scheduler.schedule()[1] is False
    assert engine.core.scheduler.schedule(True)[1] is True


def test_every_step_lets_the_lease_lapse_before_it_looks_up_k(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(some_config())
    scheduler = engine.core.scheduler
    marked = [0] + [2] * MAX_NUM_SEQS
    monkeypatch.setattr(
        EngineCoreControl, "before_schedule", lambda _self: setattr(scheduler, "dynamic_sd_lookup", marked)
    )
    assert engine.step_lookup() == marked


def test_attaching_twice_wraps_once() -> None:
    engine = Engine(some_config())
    schedule, init = engine.scheduler_class.schedule, engine.scheduler_class.__init__
    engine.attach()
    assert (engine.scheduler_class.schedule, engine.scheduler_class.__init__) == (schedule, init)


def test_an_engine_of_another_shape_serves_and_says_why_it_has_no_control() -> None:
    engine = Engine(SimpleNamespace())
    assert engine.step_lookup() == list(LAUNCHED)
    told = engine.core.outrider_get_state()
    assert not told["liveTuning"]["possible"]
    assert "AttributeError" in told["liveTuning"]["reason"]
    assert engine.put(a_push())["error"]["reason"] == "LiveTuningImpossible"


def test_a_scheduler_of_another_class_serves_and_has_no_control() -> None:
    engine = Engine(some_config())
    engine.core.scheduler = SimpleNamespace(dynamic_sd_lookup=None)
    assert not engine.core.outrider_get_state()["liveTuning"]["possible"]


def test_a_static_file_that_is_no_json_is_told(static_schedule: Path) -> None:
    static_schedule.write_text("{")
    engine = Engine(some_config())
    assert engine.step_lookup() == [0] * (MAX_NUM_SEQS + 1)
    assert engine.core.outrider_get_state()["problems"]


def test_no_static_file_leaves_the_launch_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STATIC_SCHEDULE_VARIABLE)
    assert Engine(some_config()).step_lookup() == list(LAUNCHED)


def test_an_engine_without_speculation_says_so() -> None:
    engine = Engine(some_config(speculative_config=None))
    told = engine.core.outrider_get_state()
    assert (told["method"], told["numSpeculativeTokens"]) == (None, 0)
    assert "without speculation" in told["liveTuning"]["reason"]


def test_registering_in_a_vllm_without_these_classes_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    register()
    assert "cannot be controlled" in caplog.text
