"""The executor of vLLM that sleeps instead of computing. Runs inside the engine core's process.

Source: vLLM 0.32.0, `vllm.v1.executor.abstract.Executor`. vLLM requests a step by ``execute_model``, which
has no result, and then by ``sample_tokens``. With asynchronous scheduling it does not wait for either, and
requests the next step before it takes the result of this one.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from concurrent.futures import Future
from functools import cached_property
from typing import Any, NoReturn

from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT, DraftTokenIds, ModelRunnerOutput

from outrider_twin.core import Core, Planned
from outrider_twin.faults import Kind, NoStart
from outrider_twin.pace import Report
from outrider_twin.settings import VARIABLE, Behaviour, parse_settings

LAYOUT = "LBNHC"
"""Any layout of vLLM: there is no cache."""


class Due(Future):  # type: ignore[type-arg]
    """A result that is available from the moment ``at`` on. core: records its real end."""

    def __init__(self, result: object, at: float, core: Core | None = None) -> None:
        super().__init__()
        self._outcome, self._at, self._core = result, at, core

    def done(self) -> bool:
        """Whether the moment has come."""
        return time.monotonic() >= self._at

    def result(self, timeout: float | None = None) -> Any:  # noqa: ARG002  vLLM's executors ignore it, too
        """Wait for the moment."""
        while (left := self._at - time.monotonic()) > 0:
            time.sleep(left)
        if self._core is not None:
            self._core.ended(self._at, time.monotonic())
        return self._outcome


class TwinExecutor(Executor):  # type: ignore[misc]
    """The interface of vLLM to `Core`."""

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        """True, as for executors of GPUs."""
        return True

    @cached_property
    def supported_tasks(self) -> tuple[str, ...]:
        """Supported tasks of requests."""
        return ("generate",)

    def _init_executor(self) -> None:
        self._settings = parse_settings(os.environ[VARIABLE])
        time.sleep(self._settings.faults.start_seconds)
        speculation = self.speculative_config
        self._core = Core(
            self._settings,
            drafts=None if speculation is None else speculation.num_speculative_tokens,
            pod=socket.gethostname(),
            now=time.monotonic(),
        )
        self._asked: Any = None
        self._drafts: DraftTokenIds | None = None

    # Calls of vLLM during its start.

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        """A cache of the model's shape, so that blocks and their hashes are those of the real engine."""
        model, parallel = self.model_config, self.parallel_config
        spec = FullAttentionSpec(
            block_size=self.cache_config.block_size,
            num_kv_heads=model.get_num_kv_heads(parallel),
            head_size=model.get_head_size(),
            dtype=model.dtype,
        )
        layers = range(model.get_num_layers(parallel))
        return [{f"model.layers.{layer}.self_attn.attn": spec for layer in layers}]

    def get_supported_kv_cache_layouts(self) -> list[list[str]]:
        """The only layout."""
        return [[LAYOUT]]

    def set_kv_cache_layout(self, *layout: object) -> None:
        """Nothing is laid out."""

    def determine_available_memory(self) -> list[int]:
        """Bytes for the number of tokens in the description, for any shape of the model."""
        no_start = self._settings.faults.no_start
        if no_start is NoStart.OUT_OF_MEMORY:
            _run_out_of_memory()
        if no_start is NoStart.NO_CACHE:
            return [0]
        (specs,) = self.get_kv_cache_specs()
        block = sum(spec.page_size_bytes for spec in specs.values())
        blocks = -(-self._settings.description().kv_tokens // self.cache_config.block_size)
        # One more block, which vLLM reserves.
        return [block * (blocks + 1)]

    def initialize_from_config(self, kv_cache_configs: object) -> None:
        """Nothing is allocated."""

    def compile_or_warm_up_model(self) -> None:
        """Nothing is compiled."""

    def check_health(self) -> None:
        """Nothing to check: a simulated engine that runs is healthy."""

    def shutdown(self) -> None:
        """Nothing to release."""

    def collective_rpc(
        self,
        method: Any,
        timeout: float | None = None,  # noqa: ARG002  the signature is vLLM's
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,  # noqa: ARG002
        non_block: bool = False,  # noqa: ARG002
    ) -> list[Any]:
        """Answers to the simulated engine's own calls; None for all others."""
        if method == "twin_report":
            return [self._report()]
        if method == "twin_behave":
            self._core.behave(Behaviour.model_validate(*args))
            return [self._report()]
        return [None]

    # A step.

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        """Store the requested step until `sample_tokens`."""
        if scheduler_output.total_num_scheduled_tokens == 0:
            self._core.forget(scheduler_output)
            return Due(EMPTY_MODEL_RUNNER_OUTPUT, 0.0) if non_block else EMPTY_MODEL_RUNNER_OUTPUT
        self._asked = scheduler_output
        return Due(None, 0.0) if non_block else None

    def sample_tokens(self, grammar_output: object, non_block: bool = False) -> Any:  # noqa: ARG002
        """The step's tokens, when it is due."""
        asked, self._asked = self._asked, None
        planned = self._core.plan(asked, time.monotonic())
        if planned.fault is not None:
            _suffer(planned.fault)
        self._drafts = _drafts(planned)
        result = Due(_output(planned), planned.due, self._core)
        return result if non_block else result.result()

    def take_draft_token_ids(self) -> DraftTokenIds | None:
        """The drafts of the last step, for synchronous scheduling. Their tokens have no meaning."""
        drafts, self._drafts = self._drafts, None
        return drafts

    def _report(self) -> Report:
        return self._core.report(asynchronous=bool(self.scheduler_config.async_scheduling))


def _output(planned: Planned) -> ModelRunnerOutput:
    step = planned.step
    return ModelRunnerOutput(
        req_ids=list(step.request_ids),
        req_id_to_index={request_id: index for index, request_id in enumerate(step.request_ids)},
        sampled_token_ids=list(step.tokens),
    )


def _drafts(planned: Planned) -> DraftTokenIds:
    step = planned.step
    return DraftTokenIds(list(step.request_ids), [[0] * step.load.k for _ in step.request_ids])


def _suffer(fault: Kind) -> None:
    """Cause the fault. Never returns."""
    if fault is Kind.DIE:
        os.kill(os.getpid(), signal.SIGKILL)
    if fault is Kind.HANG:
        threading.Event().wait()
    if fault is Kind.OUT_OF_MEMORY:
        _run_out_of_memory()
    raise RuntimeError("a drafter failed (simulated)")


def _run_out_of_memory() -> NoReturn:
    from torch import OutOfMemoryError

    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB (simulated).")
