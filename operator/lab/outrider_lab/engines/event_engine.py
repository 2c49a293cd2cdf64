"""One engine pod, event by event: continuous batching as in vLLM.

All steps between two events are alike, so they are computed at once. Events are an arrival, a
completed prompt or request, another schedule, or the end of a probe's part. Requests of one class
of acceptance that decode together gain the same tokens: the mean with its sampling noise. Tokens
are conserved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, sqrt
from operator import mul

import numpy as np

from outrider.performance.step_time import StepTime, Timing
from outrider_lab.engines.counters import Block, Counters, count
from outrider_lab.engines.fast_loops import Done, InEngine
from outrider_lab.engines.fleet import ProbeRun
from outrider_lab.engines.verification.batches import BatchVerification, Trimmed
from outrider_lab.engines.verification.setting import AdaptiveVerification
from outrider_lab.latency import gap_bin
from outrider_lab.traffic.acceptance import DRIFT_SECONDS, Acceptances
from outrider_lab.traffic.requests import Request, Source

BLOCK_STEPS = 200
"""Most steps made at once, so that the growth of the cache stays a small correction."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one engine, with vLLM's names."""

    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    kv_cache_tokens: int = 400_000


@dataclass(slots=True)
class Work:
    """What was done since it was last asked for: the truth."""

    seconds: float = 0.0  # engine time
    tokens: float = 0.0
    off_seconds: float = 0.0  # of it with a probe's K
    off_tokens: float = 0.0
    request_seconds: float = 0.0  # scheduled requests x engine time
    needed: list[float] = field(default_factory=list)
    """Engine seconds for the same work at the same batch: without a drafter, then with each candidate."""
    gaps: dict[int, float] = field(default_factory=dict)
    """Request-steps by the time since the request's step before."""


class EnginePod:
    """One engine. `run` moves it on; everything else is read."""

    def __init__(
        self,
        step: Timing,
        limits: Limits,
        acceptances: Acceptances,
        source: Source,
        *,
        edges: Sequence[int],
        candidates: Sequence[int],
        rng: np.random.Generator,
        slowness: float = 1.0,
    ) -> None:
        self.now = 0.0
        self.counters = Counters()
        self.probe: ProbeRun | None = None
        self.finished = 0
        self.finished_tokens = 0.0
        self.preemptions = 0
        self.kv_tokens = 0.0
        self.waiting: deque[Request] = deque()
        self.fast = InEngine()
        self._verification: BatchVerification | None = None
        self._k = 0  # of the last step
        self._admitted = 0  # requests since the last step
        self._step, self._limits, self._acceptances, self._source = step, limits, acceptances, source
        self._edges, self._rng, self._slowness = edges, rng, slowness
        self._prefilling: list[Request] = []
        self._order: list[Request] = []  # decoding or done, oldest admission first
        self._clocks = [0.0] * acceptances.kinds
        self._heaps: list[list[tuple[float, int, Request]]] = [[] for _ in range(acceptances.kinds)]
        self._counts = [0] * acceptances.kinds
        self._decoding = 0
        self._entries = 0
        self._normals: list[float] = []
        self._candidates = candidates
        self._rates: dict[int, list[float]] = {}
        self._rates_until = 0.0
        self._work = Work(needed=[0.0] * (len(candidates) + 1))

    @property
    def running(self) -> int:
        """Requests in the batch, prompts included."""
        return self._decoding + len(self._prefilling)

    @property
    def kv_usage(self) -> float:
        """Ratio of the cache in use."""
        return min(1.0, self.kv_tokens / self._limits.kv_cache_tokens)

    def take_work(self) -> Work:
        """What was done since the last call."""
        work, self._work = self._work, Work(needed=[0.0] * (len(self._candidates) + 1))
        return work

    def run(self, until: float, k_of: Callable[[int], int]) -> None:
        """Work until `until`, with the K that `k_of` gives for a number of scheduled requests."""
        while self.now < until - 1e-9:
            if self._source.next_at() <= self.now:
                if self._source.begins_anew(self.now):
                    self._cut_off()
                self.waiting.extend(self._source.take(self.now))
            if self.waiting:
                self._admit()
            if self.running == 0:
                self.now = min(until, max(self.now, self._source.next_at()))
            else:
                self._block(until, k_of)

    def verify_adaptively(self, setting: AdaptiveVerification) -> None:
        """Verify some drafts only; call it before the first step.

        Raises:
            ValueError: the step times do not say which part of a step verifies drafts.
        """
        if not isinstance(self._step, StepTime):
            raise ValueError("adaptive verification needs step times from a formula")
        longest, limits = max(self._candidates), self._limits
        self._verification = BatchVerification(
            self._step,
            setting,
            self._acceptances.chances,
            longest=longest,
            largest_batch=limits.max_num_seqs,
            largest_tokens=limits.max_num_batched_tokens + limits.max_num_seqs * (1 + longest),
            rng=self._rng,
        )

    def _cut_off(self) -> None:
        """Leave all requests; what they have said counts."""
        self.waiting.clear()
        self._prefilling, self._order = [], []
        self._heaps = [[] for _ in self._heaps]
        self._counts = [0] * len(self._counts)
        self._decoding, self.kv_tokens = 0, 0.0

    def _admit(self) -> None:
        while self.waiting and self.running < self._limits.max_num_seqs:
            request = self.waiting[0]
            planned = sum(r.to_prefill for r in self._prefilling) + request.to_prefill
            fits = self.kv_tokens + planned <= 0.98 * self._limits.kv_cache_tokens
            if not fits and self.running > 0:
                return
            self._prefilling.append(self.waiting.popleft())
            self._admitted += 1
            self.kv_tokens += request.cached

    def _block(self, until: float, k_of: Callable[[int], int]) -> None:
        scheduled = self.running
        chosen = self.fast.choose(scheduled, self.kv_tokens, self._admitted)
        self._admitted = 0
        table_k = k = k_of(scheduled) if chosen is None else chosen
        left = float("inf")
        slice_ = None if self.probe is None else self.probe.k_for(scheduled, self.now)
        if slice_ is not None:
            k, left = slice_
        prompt, done = self._prefill(k)
        seconds = self._slowness * self._step.seconds(self._decoding, k, self.kv_tokens, prompt)
        self._k = k
        steps, trimmed = 1, None
        if not self._prefilling and not done:
            limit = min(until, self._source.next_at(), (int(self.now / DRIFT_SECONDS) + 1) * DRIFT_SECONDS)
            steps = self._alike(k, seconds, min(limit - self.now, left))
            if self._verification is not None and k > 0:
                steps = min(steps, self._verification.most_steps)
            if slice_ is None:
                steps = self.fast.alike(k, scheduled, self.kv_tokens, steps)
        steps = self._fitting(steps, k)
        growth = self._step.growth(k) * self._slowness
        before = self.kv_tokens
        decoding = self._decoding
        if self._verification is not None and k > 0 and decoding:
            trimmed = self._verification.run(
                self._counts, k, steps, self.now, prompt_tokens=round(prompt), first=len(done)
            )
            seconds -= self._slowness * self._step.per_token * (decoding * k - trimmed.verified)
        emitted, accepted = self._decode(steps, k) if trimmed is None else self._take(steps, trimmed)
        self._compare(
            steps, k, prompt, before + (self.kv_tokens - before) * (steps - 1) / (2 * steps), trimmed
        )
        total = steps * seconds + growth * (self.kv_tokens - before) * (steps - 1) / 2
        self.fast.gave(k, decoding, steps, Done(total, accepted))
        self.now += total
        context = steps * (before + self.kv_tokens) / 2
        self._join(done)
        emitted += len(done) + self._finish()
        block = Block(steps, total, scheduled, decoding, k, emitted, len(done), prompt, context, accepted)
        count(self.counters, block, self._edges)
        self._account(block, off_table=k != table_k)
        if slice_ is not None and self.probe is not None:
            self.probe.spend(total)

    def _compare(self, steps: int, k: int, prompt: float, kv: float, trimmed: Trimmed | None) -> None:
        """What the same work would take with every K: expected tokens, not those that chance gave."""
        if self.now >= self._rates_until:
            ks = {*self._candidates, k, 0}
            self._rates = {k: self._acceptances.rates(k, self.now) for k in ks}
            self._rates_until = (int(self.now / DRIFT_SECONDS) + 1) * DRIFT_SECONDS
        batch, step = self._decoding, self._step
        tokens = sum(map(mul, self._counts, self._rates[k])) if trimmed is None else trimmed.expected
        reading = step.per_token * prompt
        needed = self._work.needed
        bare = tokens / batch if batch else 1.0
        none = step.seconds(batch, 0, kv) / (1.0 + step.idle_tax)
        needed[0] += steps * self._slowness * (bare * none + reading)
        for index, other in enumerate(self._candidates, start=1):
            gained = sum(map(mul, self._counts, self._rates[other]))
            share = tokens / gained if batch else 1.0
            extra = reading * (1.0 + step.idle_tax) if other == 0 else reading
            needed[index] += steps * self._slowness * (share * step.seconds(batch, other, kv) + extra)

    def _account(self, block: Block, *, off_table: bool) -> None:
        self._work.seconds += block.seconds
        self._work.tokens += block.emitted
        self._work.request_seconds += block.seconds * block.scheduled
        if block.decoding:
            gap = gap_bin(block.seconds / block.steps)
            self._work.gaps[gap] = self._work.gaps.get(gap, 0.0) + block.steps * block.decoding
        if off_table:
            self._work.off_seconds += block.seconds
            self._work.off_tokens += block.emitted

    def _prefill(self, k: int) -> tuple[float, list[Request]]:
        """Prompt tokens of the next step, and the requests whose prompt ends in it."""
        if not self._prefilling:
            return 0.0, []
        budget = left = float(max(1, self._limits.max_num_batched_tokens - self._decoding * (1 + k)))
        done = []
        for request in self._prefilling:
            chunk = min(left, request.to_prefill)
            request.to_prefill -= chunk
            left -= chunk
            if request.to_prefill == 0:
                done.append(request)
            if left == 0:
                break
        if done:
            self._prefilling = [r for r in self._prefilling if r.to_prefill > 0]
        self.kv_tokens += budget - left
        return budget - left, done

    def _alike(self, k: int, seconds: float, time: float) -> int:
        """Steps until something happens."""
        steps = min(BLOCK_STEPS, max(1, ceil(time / seconds - 1e-6)))
        for kind, number in enumerate(self._counts):
            if number:
                gain = 1.0 + self._acceptances.gain(kind, k, self.now).mean
                need = (self._heaps[kind][0][0] - self._clocks[kind]) / gain
                if need < steps:
                    steps = max(1, ceil(need))
        return steps

    def _fitting(self, steps: int, k: int) -> int:
        """No more steps than the cache has room for; the newest request gives way when it has none."""
        while True:
            room = self._limits.kv_cache_tokens - self.kv_tokens
            per_step = self._decoding * (1 + k)
            if self._decoding <= 1 or per_step <= room:
                return max(1, min(steps, int(room / per_step))) if per_step else steps
            self._preempt()

    def _preempt(self) -> None:
        while self._order:
            request = self._order.pop()
            if request.state == 1:
                break
        else:
            return
        clock = self._clocks[request.kind]
        request.left = max(1.0, request.target - clock)
        held = request.prompt + request.output - request.left
        request.to_prefill, request.cached, request.state, request.entry = held, 0.0, 0, -1
        self._counts[request.kind] -= 1
        self._decoding -= 1
        self._drop_stale(request.kind)
        self.kv_tokens -= held
        self.preemptions += 1
        self.waiting.appendleft(request)

    def _decode(self, steps: int, k: int) -> tuple[float, Sequence[float]]:
        """Advance the clocks; tokens emitted and accepted, beyond the end of requests included."""
        emitted = 0.0
        accepted = [0.0] * k
        for kind, number in enumerate(self._counts):
            if not number:
                continue
            each = float(steps)
            if k > 0:
                gain = self._acceptances.gain(kind, k, self.now)
                drafts = steps * number
                total = drafts * gain.mean + sqrt(drafts) * gain.deviation * self._normal()
                total = min(drafts * k * 1.0, max(0.0, total))
                share = min(total / gain.mean, drafts / gain.shares[0]) if gain.mean > 0 else 0.0
                for position, value in enumerate(gain.shares):
                    accepted[position] += share * value
                each += share * gain.mean / number
            self._clocks[kind] += each
            emitted += each * number
        self.kv_tokens += emitted
        return emitted, accepted

    def _take(self, steps: int, trimmed: Trimmed) -> tuple[float, Sequence[float]]:
        """The same for steps with adaptive verification."""
        emitted = 0.0
        for kind, number in enumerate(self._counts):
            if number:
                each = steps + trimmed.gained[kind] / number
                self._clocks[kind] += each
                emitted += each * number
        self.kv_tokens += emitted
        return emitted, trimmed.accepted

    def _join(self, requests: Sequence[Request]) -> None:
        """Move completed prompts to decode; the first token comes with the prompt."""
        for request in requests:
            tokens = request.left - 1 if request.left > 0 else request.output - 1
            request.target = self._clocks[request.kind] + tokens
            request.state, request.left = 1, 0.0
            self._entries += 1
            request.entry = self._entries
            heappush(self._heaps[request.kind], (request.target, self._entries, request))
            self._counts[request.kind] += 1
            self._decoding += 1
            self._order.append(request)
        self.kv_tokens += len(requests)

    def _finish(self) -> float:
        """Take out who is done; minus the tokens beyond their ends."""
        over = 0.0
        for kind, heap in enumerate(self._heaps):
            clock = self._clocks[kind]
            while heap and heap[0][0] <= clock + 1e-9:
                _, _, request = heappop(heap)
                over += clock - request.target
                self._done(request, clock)
                self._drop_stale(kind)
        if len(self._order) > 4 * self._limits.max_num_seqs:
            self._order = [r for r in self._order if r.state == 1]
        return -over

    def _done(self, request: Request, clock: float) -> None:
        request.state = 2
        self._counts[request.kind] -= 1
        self._decoding -= 1
        self.kv_tokens -= request.prompt + request.output + clock - request.target
        self.finished += 1
        self.finished_tokens += request.output
        step = self._slowness * self._step.seconds(self._decoding, self._k, self.kv_tokens)
        self.waiting.extend(self._source.finished(request, self.now, step))

    def _drop_stale(self, kind: int) -> None:
        """Entries of requests that were preempted."""
        heap = self._heaps[kind]
        while heap and heap[0][2].entry != heap[0][1]:
            heappop(heap)

    def _normal(self) -> float:
        if not self._normals:
            self._normals = self._rng.standard_normal(1024).tolist()
        return self._normals.pop()
