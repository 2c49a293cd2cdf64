"""From vLLM's scheduler output to the work and the text of the step. It knows the output by its names only,
so that tests can build one.

Source: vLLM 0.32.0, `vllm.v1.core.sched.output`. ``num_spec_tokens_to_schedule`` is the K that this step
drafts with; ``scheduled_spec_decode_tokens`` are the drafts that it verifies, made in the step before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from outrider_twin.acceptance import Curve
from outrider_twin.draws import accepted, choose, prompt_key, tokens
from outrider_twin.step_time import Load

TEXT = "twin_text"
"""The extra argument of a request (``vllm_xargs`` in its body) that names its class of text."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The classes of text. shares: weights for requests that name none."""

    curves: dict[str, Curve]
    shares: tuple[tuple[str, float], ...]
    seed: int

    def curve(self, key: int, named: object) -> Curve:
        """The curve of a request. An unknown name counts as none, since `refusal` refuses it before."""
        if isinstance(named, str) and named in self.curves:
            return self.curves[named]
        return self.curves[choose(key, self.shares)]


@dataclass(slots=True)
class Request:
    """A running request. prompt: number of its tokens. said: tokens of its text so far."""

    prompt: int
    key: int
    curve: Curve
    said: int


@dataclass(frozen=True, slots=True)
class Step:
    """The work of a step, and its tokens by request in the scheduler's order."""

    load: Load
    request_ids: Sequence[str]
    tokens: Sequence[list[int]]


class Batch:
    """The requests of one engine."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._requests: dict[str, Request] = {}

    @property
    def busy(self) -> bool:
        """Whether a request is unfinished, by the scheduler's output so far."""
        return bool(self._requests)

    def forget(self, output: Any) -> None:
        """Drop the finished requests."""
        for request_id in output.finished_req_ids:
            self._requests.pop(request_id, None)

    def take(self, output: Any) -> Step:
        """One step of the scheduler; the texts advance behind it."""
        computed: dict[str, tuple[int, int]] = {}
        for request_id, known, total in (*self._new(output), *self._cached(output)):
            computed[request_id] = (known, total)
        scheduled, drafts = output.num_scheduled_tokens, output.scheduled_spec_decode_tokens
        said: list[list[int]] = []
        decoding = prompt_tokens = 0
        for request_id, amount in scheduled.items():
            known, total = computed[request_id]
            drafted = len(drafts.get(request_id, ()))
            # A request that decodes computes one token besides its drafts; all others are known text.
            prompt_tokens += max(0, amount - drafted - 1)
            if known + amount < total:
                said.append([])
                prompt_tokens += 1
                continue
            decoding += 1
            said.append(self._say(self._requests[request_id], drafted))
        load = Load(
            k=output.num_spec_tokens_to_schedule,
            decoding=decoding,
            requests=len(scheduled),
            tokens=output.total_num_scheduled_tokens,
            prompt_tokens=prompt_tokens,
            kv_tokens=sum(known for known, _ in computed.values()),
        )
        return Step(load, list(scheduled), said)

    def _new(self, output: Any) -> Iterator[tuple[str, int, int]]:
        """Id, computed tokens and known tokens of each request that the engine has not seen yet."""
        for new in output.scheduled_new_reqs:
            prompt = new.prompt_token_ids or ()
            key = prompt_key(prompt, self._texts.seed)
            extra = (new.sampling_params.extra_args or {}) if new.sampling_params else {}
            # vLLM's V2 runner gets a preempted request as a new one, with its text so far.
            total = len(new.prefill_token_ids or prompt)
            curve = self._texts.curve(key, extra.get(TEXT))
            self._requests[new.req_id] = Request(len(prompt), key, curve, total - len(prompt))
            yield new.req_id, new.num_computed_tokens, total

    def _cached(self, output: Any) -> Iterator[tuple[str, int, int]]:
        cached = output.scheduled_cached_reqs
        for request_id, known, outputs in zip(
            cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens, strict=True
        ):
            request = self._requests[request_id]
            if request_id in cached.resumed_req_ids:
                # What was under way when it was preempted may not have been kept.
                request.said = outputs
            yield request_id, known, request.prompt + outputs

    @staticmethod
    def _say(request: Request, drafted: int) -> list[int]:
        count = accepted(request.key, request.said, drafted, request.curve.at) + 1
        text = tokens(request.key, request.said, count)
        request.said += count
        return text
