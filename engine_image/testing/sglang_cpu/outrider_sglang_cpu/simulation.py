"""SGLang with the step times and the acceptance of a description, in its scheduler's process.

HTTP server, scheduler, batches, `EAGLEWorkerV2`, the states of the candidates and the adaptive controller are
SGLang's. Outrider's plugin measures rounds by a clock that advances as on a GPU. Verification accepts as many
drafts as the text has. The layers of a Llama compute nothing, so that a round takes less of the processor.

Source: SGLang 0.5.23, `sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2`.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol

import sgl_kernel
from outrider_sglang_cpu.played import Play
from outrider_twin.settings import VARIABLE, parse_settings

POLICY_VARIABLE = "OUTRIDER_TWIN_POLICY"
"""``module:function`` of a policy in place of SGLang's own. The function gets the candidates, and a function
that returns the seconds of a round by batch size and K."""
CLIENTS = "twin_clients"
"""Key of a request's ``custom_params``: the number of clients that ask one request after the other. A round
waits for the requests of all of them, as a GPU's round is longer than what a client takes."""
STATE = "outrider_twin"
"""Key of `Seen` in SGLang's internal state, which ``/server_info`` shows."""

_SIMULATED_VARIABLE = "OUTRIDER_SIMULATED"
_PLUGIN = "outrider_sglang.sglang_adapter.round_hooks"
_SCHEDULER = "sglang.srt.managers.scheduler"
_WORKER = "sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2"
_CLIENT_SECONDS, _LOOK_SECONDS = 5.0, 0.001
"""How long a round waits for clients at most, and between two looks for their requests."""
_LAYERS = "sglang.srt.models.llama"
_POLICY = "sglang.srt.speculative.adaptive_spec_params.AdaptiveSpeculativeParams"
_INTERNAL = (
    "sglang.srt.managers.scheduler_components.internal_state.SchedulerInternalStateController"
    ".get_internal_state"
)


class Policy(Protocol):
    """A policy in place of `AdaptiveSpeculativeParams`."""

    def choose(self, batch: int) -> int:
        """K of the next round."""
        ...

    def verified(self, batch: int, accepted: list[int]) -> None:
        """Learn from a round of the K that was chosen last. accepted: drafts of each request."""
        ...


MakePolicy = Callable[[list[int], Callable[[int, int], float]], Policy]


class Simulation:
    """The hooks of one scheduler's process."""

    def __init__(self) -> None:
        settings = parse_settings(os.environ[VARIABLE])
        self._title = settings.description().title
        self._play = Play(settings, pod=socket.gethostname())
        self._policy: Policy | None = None
        self._due = 0.0

    def attach(self) -> None:
        """Hook the scheduler, in processes that run one."""
        os.environ.setdefault(_SIMULATED_VARIABLE, self._title)
        if _SCHEDULER not in sys.modules:
            return
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType

        self._give_clock()
        hooks: dict[str, Callable[..., Any]] = {
            f"{_SCHEDULER}.Scheduler.process_input_requests": _with_all_clients,
            f"{_WORKER}.forward_batch_generation": self._forward,
            f"{_WORKER}.verify": self._verify,
            f"{_LAYERS}.LlamaAttention.forward": _attention,
            f"{_LAYERS}.LlamaMLP.forward": _mlp,
            _INTERNAL: self._internal_state,
        }
        if os.environ.get(POLICY_VARIABLE):
            hooks[f"{_POLICY}.get_steps_for_batch"] = self._get_steps
            hooks[f"{_POLICY}.on_verify_complete"] = self._verified
        for target, hook in hooks.items():
            HookRegistry.register(target, hook, HookType.AROUND)

    def _give_clock(self) -> None:
        """Have Outrider's plugin measure rounds by the played clock, where it is installed."""
        with suppress(ImportError):
            vars(import_module(_PLUGIN))["perf_counter"] = self._play.clock

    def _forward(
        self, original: Callable[..., Any], worker: Any, batch: Any, *args: Any, **kwargs: Any
    ) -> Any:
        began = time.monotonic()
        result = original(worker, batch, *args, **kwargs)
        if batch.reqs:
            seconds = self._play.ran(batch, int(worker.speculative_num_steps))
            # Never faster than the clock. A machine that is late does not hurry afterwards.
            self._due = max(self._due, began) + seconds
            time.sleep(max(0.0, self._due - time.monotonic()))
        return result

    def _verify(
        self, original: Callable[..., Any], worker: Any, batch: Any, *args: Any, **kwargs: Any
    ) -> Any:
        k = int(batch.spec_info.draft_token_num) - 1
        sgl_kernel.drafts.drawn = self._play.accepted(batch, k)
        return original(worker, batch, *args, **kwargs)

    def _internal_state(self, original: Callable[..., Any], controller: Any, *args: Any) -> Any:
        output = original(controller, *args)
        output.internal_state[STATE] = self._play.seen()
        return output

    def _get_steps(
        self,
        original: Callable[..., int],  # noqa: ARG002  the registry's form
        policy: Any,
        batch_size: int,
    ) -> int:
        if self._policy is None:
            module, _, name = os.environ[POLICY_VARIABLE].partition(":")
            make: MakePolicy = getattr(import_module(module), name)
            self._policy = make(list(policy.candidate_steps), self._play.seconds)
        return self._policy.choose(batch_size)

    def _verified(
        self, original: Callable[..., int | None], policy: Any, accepted: list[int], batch_size: int
    ) -> int | None:
        if self._policy is None:
            return original(policy, accepted, batch_size)
        self._policy.verified(batch_size, accepted)
        return None


def _with_all_clients(original: Callable[..., Any], scheduler: Any, requests: Any) -> Any:
    """Take requests until every client has one."""
    answer = original(scheduler, requests)
    deadline = time.monotonic() + _CLIENT_SECONDS
    while 0 < (found := _requests(scheduler))[0] < found[1] and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        original(scheduler, scheduler.request_receiver.recv_requests())
    return answer


def _requests(scheduler: Any) -> tuple[int, int]:
    """Number of unfinished requests, and of the clients that the last of them names."""
    last = scheduler.last_batch.reqs if scheduler.last_batch else ()
    known = (*scheduler.running_batch.reqs, *last, *scheduler.waiting_queue)
    left = {request.rid: request for request in known if not request.finished()}
    clients = [(request.sampling_params.custom_params or {}).get(CLIENTS, 0) for request in left.values()]
    return len(left), int(clients[-1]) if clients else 0


def _attention(
    original: Callable[..., Any],  # noqa: ARG001  the registry's form
    layer: Any,
    positions: Any,  # noqa: ARG001  SGLang names the arguments
    hidden_states: Any,
    forward_batch: Any,  # noqa: ARG001
) -> Any:
    """Attention that adds nothing of meaning, and stores nothing. An EAGLE-3 head gives twice the width."""
    return hidden_states[..., : layer.hidden_size]


def _mlp(original: Callable[..., Any], layer: Any, x: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG001
    return x
