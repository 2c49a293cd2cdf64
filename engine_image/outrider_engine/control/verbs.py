"""What an API server process can ask of the engine core, verb by verb.

`Engines.call` sends a verb's name and payload to the core's process, where `answer` runs it between two
steps. Both are plain types, since they cross a process border.

A push is parsed twice. The API server refuses one that is malformed without a wait for the engine's step,
and passes on known fields only. The core parses again because it trusts no caller: other code in the pod can
make the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NoReturn, Protocol, TypedDict, TypeVar

from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.probe import parse_probe
from outrider_engine.control.push import parse_push
from outrider_engine.control.self_test import Trial, TrialResult
from outrider_engine.control.startup_profile import Visit
from outrider_engine.control.state import Measurement, unavailable, unmeasured
from outrider_protocol.control_api import Reason, Refusal
from outrider_protocol.engine_state import State

Payload = TypeVar("Payload")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Verb(Generic[Payload, Answer]):
    """One thing that the engine core does.

    run: may raise `Refusal`, which reaches the caller.
    uncontrolled: the answer of a core that the plugin cannot control, by the cause.
    """

    name: str
    run: Callable[[EngineCoreControl, Payload], Answer]
    uncontrolled: Callable[[str], Answer]


class PushPayload(TypedDict):
    """A push on its wire, and `Push.cost_model_fault`, which the wire does not have."""

    push: dict[str, object]
    costModelFault: str | None


def _put(control: EngineCoreControl, payload: PushPayload) -> State:
    push, fault = parse_push(payload["push"]), payload["costModelFault"]
    return control.put(push if fault is None else replace(push, cost_model_fault=fault))


def _refuse(why: str) -> NoReturn:
    raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, why)


def _no_requests(_: str) -> list[Any]:
    return []


def _nothing(_: str) -> None:
    return None


STATE: Verb[None, State] = Verb("state", lambda core, _: core.state_with_step_times(), unavailable)
MEASUREMENT: Verb[None, Measurement] = Verb("measurement", lambda core, _: core.measurement(), unmeasured)
LONGEST_STEP_SECONDS: Verb[None, float] = Verb(
    "longest_step_seconds", lambda core, _: core.longest_step_seconds, lambda _: 0.0
)

PUT_SCHEDULE = Verb("put_schedule", _put, _refuse)
START_PROBE: Verb[dict[str, object], State] = Verb(
    "start_probe", lambda core, body: core.start_probe(parse_probe(body)), _refuse
)
PUT_MEASURING: Verb[bool, State] = Verb(
    "put_measuring", lambda core, enabled: core.measure(enabled=enabled), _refuse
)

BEGIN_SELF_TEST: Verb[None, list[Trial]] = Verb(
    "begin_self_test", lambda core, _: core.startup.begin_self_test(), _no_requests
)
BEGIN_TRIAL: Verb[int, None] = Verb("begin_trial", lambda core, k: core.startup.begin_trial(k), _nothing)
END_TRIAL: Verb[TrialResult, None] = Verb(
    "end_trial", lambda core, result: core.startup.end_trial(result), _nothing
)
END_SELF_TEST: Verb[str | None, None] = Verb(
    "end_self_test", lambda core, fault: core.startup.end_self_test(fault), _nothing
)

BEGIN_PROFILE: Verb[float, list[Visit]] = Verb(
    "begin_profile", lambda core, seconds: core.startup.begin_profile(seconds), _no_requests
)
BEGIN_VISIT: Verb[Visit, None] = Verb(
    "begin_visit", lambda core, visit: core.startup.begin_visit(visit), _nothing
)
VISITING: Verb[None, bool] = Verb("visiting", lambda core, _: core.visiting, lambda _: False)
END_VISIT: Verb[None, None] = Verb("end_visit", lambda core, _: core.startup.end_visit(), _nothing)
END_PROFILE = Verb("end_profile", EngineCoreControl.end_profile, _nothing)

VERBS: Mapping[str, Verb[Any, Any]] = {
    verb.name: verb
    for verb in (
        *(STATE, MEASUREMENT, LONGEST_STEP_SECONDS),
        *(PUT_SCHEDULE, START_PROBE, PUT_MEASURING),
        *(BEGIN_SELF_TEST, BEGIN_TRIAL, END_TRIAL, END_SELF_TEST),
        *(BEGIN_PROFILE, BEGIN_VISIT, VISITING, END_VISIT, END_PROFILE),
    )
}


def answer(control: EngineCoreControl | None, why_none: str, verb: str, payload: object) -> dict[str, object]:
    """Run a verb in the core's process: ``{"answer": …}``, or ``{"error": …}`` where nothing was changed.

    why_none: the cause where the core has no control.
    """
    called = VERBS[verb]
    try:
        return {"answer": called.uncontrolled(why_none) if control is None else called.run(control, payload)}
    except Refusal as refusal:
        return {"error": refusal.to_wire()}


class Engines(Protocol):
    """The engine cores of this pod, as an API server process reaches them."""

    async def call(self, verb: Verb[Payload, Answer], payload: Payload) -> Answer:
        """Have the only engine core run a verb.

        Raises:
            Refusal: nothing was changed.
        """
        ...

    async def call_all(self, verb: Verb[None, Answer]) -> list[Answer]:
        """Have every engine core run a verb."""
        ...

    async def generate(self, prompt: list[int], tokens: int) -> list[int]:
        """The next ``tokens`` greedy token ids after a prompt of token ids. Stop tokens do not end it."""
        ...

    def model_name(self) -> str:
        """The value of the label ``model_name`` in vLLM's own metrics."""
        ...

    async def likeliest(self, prompt: list[int]) -> dict[int, float]:
        """Log-probabilities of the likeliest next tokens after a prompt, in nats."""
        ...
