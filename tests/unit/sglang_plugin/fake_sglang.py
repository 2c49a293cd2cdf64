"""Stand-ins of the shape of SGLang's scheduler, policy and registry of hooks. Hooking changes classes, so
each test gets its own. Batches, results and requests have what SGLang 0.5.23 gives them."""

from __future__ import annotations

import functools
import pkgutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

MAX_RUNNING = 8
CANDIDATES = (0, 1, 3)


class Mode(Enum):
    DECODE = "decode"
    EXTEND = "extend"
    IDLE = "idle"

    def is_decode(self) -> bool:
        return self is Mode.DECODE

    def is_extend(self) -> bool:
        return self is Mode.EXTEND


@dataclass
class Request:
    rid: str
    prompt: int = 10
    output_ids: list[int] = field(default_factory=list)
    ended: bool = False
    is_retracted: bool = False
    finished_len: int | None = None

    @property
    def output_ids_through_stop(self) -> list[int]:
        return self.output_ids[: self.finished_len]

    @property
    def seqlen(self) -> int:
        return self.prompt + len(self.output_ids)

    def finished(self) -> bool:
        return self.ended


@dataclass
class Batch:
    reqs: list[Request]
    forward_mode: Mode = Mode.DECODE
    extend_num_tokens: int | None = None


class HookType(Enum):
    AROUND = "around"


class HookRegistry:
    """As SGLang's: a target that is not there costs its hook alone."""

    hooks: ClassVar[dict[str, Callable[..., Any]]] = {}

    @classmethod
    def register(cls, target: str, hook: Callable[..., Any], hook_type: HookType) -> None:
        assert hook_type is HookType.AROUND
        cls.hooks[target] = hook

    @classmethod
    def apply_hooks(cls) -> None:
        for target, hook in cls.hooks.items():
            owner, _, name = target.rpartition(".")
            try:
                found = pkgutil.resolve_name(owner)
                original = getattr(found, name)
            except (ImportError, AttributeError):
                continue
            setattr(found, name, _around(original, hook))
        cls.hooks = {}


def _around(original: Callable[..., Any], hook: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return hook(original, *args, **kwargs)

    return wrapper


def policy_class() -> type:
    class AdaptiveSpeculativeParams:
        """It keeps the steps of the launch, and an estimate."""

        def __init__(self, candidates: Sequence[int]) -> None:
            self.candidate_steps = sorted(candidates)
            self.estimate: list[int] = []

        def get_steps_for_batch(self, batch_size: int) -> int:  # noqa: ARG002
            return max(self.candidate_steps)

        def on_verify_complete(self, num_correct_drafts_per_req: list[int], batch_size: int) -> int | None:  # noqa: ARG002
            self.estimate += num_correct_drafts_per_req
            return 0

    return AdaptiveSpeculativeParams


class Worker:
    """Stand-in of `EAGLEWorkerV2` with its `AdaptiveController`."""

    def __init__(self, policy: Any, draft_tokens: int = 4) -> None:
        self.adaptive_controller: Any = policy
        self.speculative_num_draft_tokens = draft_tokens
        self.speculative_num_steps = draft_tokens - 1

    def forward(self, batch: Batch) -> None:
        policy = self.adaptive_controller
        if hasattr(policy, "get_steps_for_batch") and batch.forward_mode.is_decode():
            k = policy.get_steps_for_batch(len(batch.reqs))
            assert k in policy.candidate_steps, "SGLang has no state for it, and ends"
            self.speculative_num_steps, self.speculative_num_draft_tokens = k, k + 1


def scheduler_class() -> type:
    class Scheduler:
        def __init__(self, engine: Any) -> None:
            self.server_args = engine.server_args
            self.draft_worker = engine.worker
            self.max_running_requests = MAX_RUNNING
            self.max_total_num_tokens = 4096
            self.model_config = SimpleNamespace(context_len=512)
            self.running_batch = Batch([])
            self.waiting_queue: list[Request] = []
            self.sent: list[Any] = []
            tokenizer = SimpleNamespace(send_output=lambda output, _: self.sent.append(output))
            self.ipc_channels = SimpleNamespace(send_to_tokenizer=tokenizer)

        def run_event_loop(self) -> None:
            raise RuntimeError("out of memory")

        def process_input_requests(self, requests: list[Any]) -> list[Any]:
            for request in requests:
                if isinstance(request, DumperRequest):
                    self.handle_dumper_control(request)
            return requests

        def run_batch(self, batch: Batch) -> Any:
            if self.draft_worker is not None:
                self.draft_worker.forward(batch)
            return SimpleNamespace()

        def process_batch_result(self, batch: Batch, result: Any) -> None:
            """As `BatchResultProcessor`: requests that have ended get no tokens."""
            if batch.forward_mode.is_decode():
                counts = result.num_correct_drafts_per_req_cpu = list(result.accepted)
                if self.draft_worker.adaptive_controller is not None:
                    self.draft_worker.adaptive_controller.on_verify_complete(counts, len(batch.reqs))
            for index, request in enumerate(batch.reqs):
                if not request.finished():
                    drafts = result.accepted[index] if batch.forward_mode.is_decode() else 0
                    request.output_ids += [7] * (drafts + 1)

        def handle_dumper_control(self, request: Any) -> None:
            self.sent.append(SimpleNamespace(success=False, response=[], error=f"no {request.method}"))

    return Scheduler


def receiver_class() -> type:
    class SchedulerRequestReceiver:
        def __init__(self, requests: list[Any] | None) -> None:
            self.requests = requests

        def _pull_raw_reqs(self) -> list[Any] | None:
            return self.requests

    return SchedulerRequestReceiver


@dataclass
class DumperRequest:
    method: str
    body: dict[str, Any]


@dataclass
class DumperOutput:
    success: bool
    response: list[Any]
    error: str = ""


def server_args(**overrides: object) -> SimpleNamespace:
    values: dict[str, object] = {
        "speculative_algorithm": "EAGLE3",
        "speculative_eagle_topk": 1,
        "dp_size": 1,
        "pp_size": 1,
        "disaggregation_mode": "null",
        "tokenizer_worker_num": 1,
    }
    return SimpleNamespace(**(values | overrides))


def install(monkeypatch: pytest.MonkeyPatch, *, version: str = "0.5.23", without: Sequence[str] = ()) -> None:
    """Put the modules in place. without: names of the scheduler and the policy that this release lacks."""
    scheduler, policy, receiver = scheduler_class(), policy_class(), receiver_class()
    for name in without:
        for owner in (scheduler, policy, receiver):
            if name in vars(owner):
                delattr(owner, name)
    distributed = SimpleNamespace(is_initialized=lambda: False)
    modules: dict[str, dict[str, object]] = {
        "torch": {"distributed": distributed},
        "sglang": {},
        "sglang.version": {"__version__": version},
        "sglang.srt": {},
        "sglang.srt.plugins": {},
        "sglang.srt.plugins.hook_registry": {"HookRegistry": HookRegistry, "HookType": HookType},
        "sglang.srt.managers": {},
        "sglang.srt.managers.scheduler": {"Scheduler": scheduler},
        "sglang.srt.managers.scheduler_components": {},
        "sglang.srt.managers.scheduler_components.request_receiver": {"SchedulerRequestReceiver": receiver},
        "sglang.srt.managers.io_struct": {
            "DumperControlReqInput": DumperRequest,
            "DumperControlReqOutput": DumperOutput,
            "GenerateReqInput": SimpleNamespace,
        },
        "sglang.srt.speculative": {},
        "sglang.srt.speculative.adaptive_spec_params": {"AdaptiveSpeculativeParams": policy},
        "sglang.srt.server_args": {
            "PortArgs": type("PortArgs", (), {"init_new": staticmethod(lambda: "ports")})
        },
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    monkeypatch.setattr(HookRegistry, "hooks", {})
