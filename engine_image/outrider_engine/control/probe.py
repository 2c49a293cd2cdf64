"""A probe: other K in one batch bin, each for a short time, on top of the schedule in force.

Its parts run one after the other. It ends after its last part, at its deadline, at a push of another
schedule, or with the lease of its schedule. Pure: the clock is a parameter, in monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from outrider_engine.control.parsing import number_up_to, parse_fence, require_keys, whole_number
from outrider_engine.counting.measure import Step
from outrider_protocol.control_api import ProbeOrder, Reason, Refusal, Slice
from outrider_protocol.engine_state import ProbeReason, ProbeState, SliceResult

MAX_SLICES = 32
MAX_ID = 128
MAX_SLICE_SECONDS = 60.0
MAX_DEADLINE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Tally:
    """The steps of one part: those that it used, and of them those that count. Mixed steps do not count."""

    used_steps: int = 0
    used_seconds: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    scheduled_requests: int = 0
    emitted_tokens: int = 0

    def with_step(self, step: Step) -> Tally:
        """The tally after one more step of the part's K in the bin."""
        used = replace(self, used_steps=self.used_steps + 1, used_seconds=self.used_seconds + step.seconds)
        if step.mixed:
            return used
        return replace(
            used,
            steps=self.steps + 1,
            seconds=self.seconds + step.seconds,
            scheduled_requests=self.scheduled_requests + step.batch_size,
            emitted_tokens=self.emitted_tokens + step.emitted_tokens,
        )

    def fills(self, part: Slice) -> bool:
        """Whether the part is done."""
        return (part.steps is not None and self.used_steps >= part.steps) or (
            part.seconds is not None and self.used_seconds >= part.seconds
        )


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe that has started. ``tallies``: one per part that began; the last is the current one."""

    request: ProbeOrder
    ends_at: float
    reason: ProbeReason = ProbeReason.RUNNING
    tallies: tuple[Tally, ...] = (Tally(),)

    @property
    def running(self) -> bool:
        """Whether the probe sets the K of its bin."""
        return self.reason is ProbeReason.RUNNING

    @property
    def current(self) -> Slice:
        """The part that runs, or ran last."""
        return self.request.slices[len(self.tallies) - 1]

    @property
    def k_in_force(self) -> int | None:
        """The K of the probe for its bin; None when it has ended."""
        return self.current.num_speculative_tokens if self.running else None

    def over(self, lookup: tuple[int, ...]) -> tuple[int, ...]:
        """The lookup with the probe on top; the same one when the probe has ended."""
        k, contains = self.k_in_force, self.request.contains
        if k is None:
            return lookup
        return (lookup[0], *(k if contains(size) else below for size, below in enumerate(lookup[1:], 1)))

    def ended(self, reason: ProbeReason) -> Probe:
        """The probe, ended for this reason; unchanged when it had ended before."""
        return replace(self, reason=reason) if self.running else self

    def at(self, now: float) -> Probe:
        """The probe at this moment: ended when its deadline has come."""
        return self.ended(ProbeReason.DEADLINE) if now >= self.ends_at else self

    def after(self, step: Step) -> Probe:
        """The probe after a finished step."""
        part = self.current
        ours = step.num_speculative_tokens == part.num_speculative_tokens
        if not (self.running and ours and self.request.contains(step.batch_size)):
            return self
        tally = self.tallies[-1].with_step(step)
        tallies = (*self.tallies[:-1], tally)
        if not tally.fills(part):
            return replace(self, tallies=tallies)
        if len(tallies) == len(self.request.slices):
            return replace(self, tallies=tallies, reason=ProbeReason.COMPLETED)
        return replace(self, tallies=(*tallies, Tally()))

    def to_wire(self) -> ProbeState:
        """The form that the state has."""
        return ProbeState(
            id=self.request.id,
            minBatchSize=self.request.low,
            maxBatchSize=self.request.high,
            running=self.running,
            reason=self.reason.value,
            results=[
                SliceResult(
                    numSpeculativeTokens=part.num_speculative_tokens,
                    steps=tally.steps,
                    seconds=tally.seconds,
                    scheduledRequests=tally.scheduled_requests,
                    emittedTokens=tally.emitted_tokens,
                )
                for part, tally in zip(self.request.slices, self.tallies, strict=False)
            ],
        )


def start(request: ProbeOrder, now: float) -> Probe:
    """The probe that begins now."""
    return Probe(request, ends_at=now + request.deadline_seconds)


def parse_probe(value: object) -> ProbeOrder:
    """Read the body of ``POST /outrider/v1/probe``.

    Raises:
        Refusal: `Reason.MALFORMED`; the message names the field.
    """
    needed = ("term", "epoch", "id", "minBatchSize", "slices", "deadlineSeconds")
    body = require_keys(value, "the body", *needed, optional=("maxBatchSize",))
    low = whole_number(body["minBatchSize"], "minBatchSize", at_least=1)
    high = body.get("maxBatchSize")
    return ProbeOrder(
        fence=parse_fence(body),
        id=_parse_id(body["id"]),
        low=low,
        high=None if high is None else whole_number(high, "maxBatchSize", at_least=low),
        slices=_parse_slices(body["slices"]),
        deadline_seconds=number_up_to(body["deadlineSeconds"], "deadlineSeconds", MAX_DEADLINE_SECONDS),
    )


def _parse_id(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID or not value.isprintable():
        raise Refusal(Reason.MALFORMED, f"id must be a printable text of 1 … {MAX_ID} characters")
    return value


def _parse_slices(value: object) -> tuple[Slice, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_SLICES:
        raise Refusal(Reason.MALFORMED, f"`slices` must be a list of 1 … {MAX_SLICES} parts")
    return tuple(_parse_slice(part, f"slices[{index}]") for index, part in enumerate(value))


def _parse_slice(value: object, name: str) -> Slice:
    body = require_keys(value, name, "numSpeculativeTokens", optional=("seconds", "steps"))
    seconds, steps = body.get("seconds"), body.get("steps")
    if seconds is None and steps is None:
        raise Refusal(Reason.MALFORMED, f"{name} needs seconds or steps")
    return Slice(
        num_speculative_tokens=whole_number(body["numSpeculativeTokens"], f"{name}.numSpeculativeTokens"),
        seconds=None if seconds is None else number_up_to(seconds, f"{name}.seconds", MAX_SLICE_SECONDS),
        steps=None if steps is None else whole_number(steps, f"{name}.steps", at_least=1),
    )
