"""An engine of stand-ins with the plugin in it, round by round."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from outrider_engine.control.verbs import MEASUREMENT, PUT_SCHEDULE, PushPayload, Verb
from outrider_protocol.control_api import Push, Refusal
from outrider_protocol.schedule import Schedule
from outrider_sglang.plugin import register
from outrider_sglang.sglang_adapter.channel import METHOD, PAYLOAD, VERB
from tests.unit.engine_plugin.factories import a_push
from tests.unit.sglang_plugin.fake_sglang import (
    CANDIDATES,
    Batch,
    DumperRequest,
    HookRegistry,
    Mode,
    Request,
    Worker,
    server_args,
)


class Engine:
    """One process with a scheduler. SGLang loads its plugins before it makes the scheduler.

    candidates: of SGLang's adaptive mode; None for an engine without it.
    """

    def __init__(self, candidates: Sequence[int] | None = CANDIDATES, **arguments: object) -> None:
        register()
        HookRegistry.apply_hooks()
        modules: Any = sys.modules
        policies = modules["sglang.srt.speculative.adaptive_spec_params"]
        self._receivers = modules["sglang.srt.managers.scheduler_components.request_receiver"]
        self.server_args = server_args(**arguments)
        policy = None if candidates is None else policies.AdaptiveSpeculativeParams(candidates)
        self.worker: Any = None if self.server_args.speculative_algorithm is None else Worker(policy)
        self.scheduler = modules["sglang.srt.managers.scheduler"].Scheduler(self)

    def ingest(self, *requests: object) -> list[Any]:
        """What every round begins with: requests arrive."""
        pulled = self._receivers.SchedulerRequestReceiver(list(requests))._pull_raw_reqs()
        handled: list[Any] = self.scheduler.process_input_requests(pulled)
        return handled

    def launch(self, *requests: Request, prompts: int = 0) -> tuple[Batch, Any]:
        """Launch a batch. prompts: tokens of prompts that it computes; 0 for one that decodes."""
        mode = Mode.EXTEND if prompts else Mode.DECODE
        batch = Batch(list(requests), mode, prompts or None)
        self.scheduler.running_batch = batch
        return batch, self.scheduler.run_batch(batch)

    def finish(self, launched: tuple[Batch, Any], accepted: Sequence[int] = ()) -> None:
        """Read the result of a batch. accepted: drafts of each request."""
        batch, result = launched
        result.accepted = list(accepted)
        self.scheduler.process_batch_result(batch, result)

    def round(self, *requests: Request, accepted: Sequence[int]) -> int:
        """One whole decoding round; its K."""
        self.ingest()
        launched = self.launch(*requests)
        self.finish(launched, accepted)
        return int(self.worker.speculative_num_steps)

    def ask(self, verb: Verb[Any, Any], payload: object = None) -> Any:
        """The answer to a verb, as the HTTP server's process gets it.

        Raises:
            Refusal: nothing was changed.
        """
        output = self.send(METHOD, {VERB: verb.name, PAYLOAD: payload})
        assert output.success, output.error
        (packed,) = output.response
        if "error" in packed:
            raise Refusal.from_wire(packed["error"])
        return packed["answer"]

    def send(self, method: str, body: dict[str, Any]) -> SimpleNamespace:
        """The scheduler's only answer to a control request."""
        self.scheduler.sent.clear()
        self.ingest(DumperRequest(method, body))
        (output,) = self.scheduler.sent
        return SimpleNamespace(**vars(output))

    def put(self, k: int, **push: Any) -> Any:
        """Push one K for all batch sizes."""
        return self.push(a_push(table=Schedule.constant(k), **push))

    def push(self, push: Push) -> Any:
        return self.ask(PUT_SCHEDULE, PushPayload(push=push.to_wire(), costModelFault=None))

    def cells(self) -> dict[tuple[int, int | None], Any]:
        """What was counted, by lower edge of the batch bin and by K."""
        found = self.ask(MEASUREMENT)["cells"]
        return {(cell["minBatchSize"], cell["numSpeculativeTokens"]): cell for cell in found}
