"""K limits: the largest K of one request, from itself and from the limit rules; 0 means no speculation.

The engine withholds draft tokens beyond the limit from that request, and the others of the batch keep theirs.
A step drafts no more than its requests may verify. Pure except for its own records. Runs on the engine core's
thread, apart from `read_limit` and `read_header`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from outrider_engine.control.engine_facts import EngineFacts
from outrider_engine.control.limit_rules import Arrival, LimitRules
from outrider_engine.counting.measure import MAX_STEPS_IN_FLIGHT, LimitedStep
from outrider_protocol.cost_model import MAX_K

KEY = "outrider_max_k"
"""Extra argument of a request, in ``vllm_xargs``."""
HEADER = "X-Outrider-Max-K"
"""HTTP header with the same meaning. The smaller one applies where a request has both."""

_NO_DRAFTS = (None, "extract_hidden_states")
"""Methods that draft nothing of the text."""


class InvalidLimit(ValueError):
    """A K limit is not a number that K can have. name: the field."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is not a whole number from 0 to {MAX_K}. It is the largest number of draft tokens per "
            "step for this request; 0 turns speculation off"
        )
        self.name = name


class Outcome(StrEnum):
    """What became of the K limit that a request asked for."""

    APPLIED = "Applied"
    NO_EFFECT = "NoEffect"
    """The engine never drafts more than that."""
    INVALID = "Invalid"
    """It came past the API server's check, and was ignored."""


def read_limit(value: object, name: str = KEY) -> int:
    """The K limit of an extra argument.

    Raises:
        InvalidLimit: it is not a whole number within 0 and `MAX_K`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_K:
        raise InvalidLimit(name)
    return value


def read_header(text: str) -> int:
    """The K limit of one header. Raises as `read_limit`."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(MAX_K))):
        raise InvalidLimit(HEADER)
    return read_limit(int(digits), HEADER)


@dataclass(slots=True)
class _Early:
    """Limits of a request until its answer has some tokens.

    lasting: the limit after them all. limits: pairs of a number of tokens and a limit, rising.
    """

    lasting: int
    limits: list[tuple[int, int]]

    def at(self, output_tokens: int) -> int:
        """The limit of an answer of this length."""
        while self.limits and self.limits[0][0] <= output_tokens:
            self.limits.pop(0)
        return min([self.lasting, *(limit for _, limit in self.limits)])


@dataclass(slots=True)
class _Scheduled:
    """A step without a result yet.

    apart: its requests that may verify fewer draft tokens than the step before drafted.
    limited: by position, its requests whose limit leaves the position out.
    """

    key: object
    apart: frozenset[str]
    limited: tuple[int, ...]
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)


class RequestLimits:
    """The K limits of one engine core's requests.

    usable: every K that a step may have now; empty where K cannot change.
    rules: what limits requests beside themselves.
    """

    def __init__(
        self, facts: EngineFacts, usable: Callable[[], frozenset[int]], rules: LimitRules | None = None
    ) -> None:
        self.rules = rules or LimitRules(None)
        self.outcomes = dict.fromkeys(Outcome, 0)
        """Requests that asked for a K limit, by outcome."""
        self.withheld_tokens = 0
        """Draft tokens that were left out."""
        self._positions = 0 if facts.method in _NO_DRAFTS else facts.num_speculative_tokens
        self._usable = usable
        self._limits: dict[str, int] = {}
        self._early: dict[str, _Early] = {}
        self._ended: dict[str, int] = {}
        self._latest: tuple[int, ...] = ()
        self._asked = self._positions
        self._steps: deque[_Scheduled] = deque(maxlen=MAX_STEPS_IN_FLIGHT)
        self._reading: _Scheduled | None = None

    @property
    def active(self) -> bool:
        """Whether a request of the engine has a limit."""
        return bool(self._limits or self._ended)

    @property
    def latest(self) -> tuple[int, ...]:
        """By position, requests of the latest step whose limit leaves it out; empty without any."""
        return self._latest if self.active else ()

    def admit(self, request: Arrival) -> None:
        """A request arrived. The smallest applies of the limit that it asks for and those of rules."""
        rules = [rule for rule in self.rules.met_by(request) if rule.max_k < self._positions]
        lasting = [rule.max_k for rule in rules if rule.when.first_output_tokens is None]
        early = [(end, rule.max_k) for rule in rules if (end := rule.when.first_output_tokens) is not None]
        limits = _Early(min([self._asked_for(request), *lasting]), sorted(early))
        if (limit := limits.at(0)) >= self._positions:
            return
        self._limits[request.request_id] = limit
        if early:
            self._early[request.request_id] = limits

    def _asked_for(self, request: Arrival) -> int:
        """One that cannot be read is ignored, since the request is in the engine."""
        if not request.extra_args or KEY not in request.extra_args:
            return self._positions
        try:
            limit = read_limit(request.extra_args[KEY])
        except InvalidLimit:
            self.outcomes[Outcome.INVALID] += 1
            return self._positions
        self.outcomes[Outcome.APPLIED if limit < self._positions else Outcome.NO_EFFECT] += 1
        return min(limit, self._positions)

    def end_early(self, output_tokens: Callable[[str], int]) -> None:
        """End limits of the first tokens of an answer, once drafts are withheld for the next step.

        That step drafts more and verifies as before, since the last one may have drafted no more.

        output_tokens: tokens of a request's answer so far.
        """
        for request_id, limits in list(self._early.items()):
            if output_tokens(request_id) < limits.limits[0][0]:
                continue
            self._ended[request_id] = self._runnable(self._limits.pop(request_id))
            if (limit := limits.at(output_tokens(request_id))) < self._positions:
                self._limits[request_id] = limit
            if not limits.limits:
                del self._early[request_id]

    def outcomes_by_name(self) -> dict[str, int]:
        """`outcomes` as plain types."""
        return {outcome.value: count for outcome, count in self.outcomes.items()}

    def disable(self) -> None:
        """Limit no request any more."""
        self._positions = 0
        self._limits.clear()
        self._early.clear()
        self._ended.clear()
        self._steps.clear()
        self._reading = None

    def of(self, request_id: str) -> int | None:
        """Draft tokens that a request may verify in a step, a K that the engine can run; None: all."""
        limit = self._limits.get(request_id)
        return None if limit is None else self._runnable(limit)

    def _runnable(self, limit: int) -> int:
        usable = self._usable() if limit else None
        return limit if not usable else max((k for k in usable if k <= limit), default=0)

    def k_of(self, request_ids: Iterable[str], k: int) -> int:
        """The K of a step: no more than its requests may verify.

        k: that of the schedule.
        """
        largest = 0
        for request_id in request_ids:
            limit = self._limits.get(request_id)
            if limit is None or limit >= k:
                return k
            largest = max(largest, limit)
        return max((usable for usable in self._usable() if usable <= largest), default=k)

    def scheduled(self, key: object, request_ids: Collection[str], k: int) -> frozenset[str]:
        """A step was scheduled.

        key: the object by which `reading` finds it again. k: that it drafts.

        Returns:
            its requests that may verify fewer draft tokens than the step before drafted.
        """
        limits = {
            name: limit for name in request_ids if (limit := self._ended.pop(name, self.of(name))) is not None
        }
        asked, self._asked = self._asked, k
        apart = frozenset(name for name, limit in limits.items() if limit < asked)
        counts = [0] * self._positions
        for limit in limits.values():
            for position in range(limit, self._positions):
                counts[position] += 1
        self._latest = tuple(counts) if limits else ()
        if limits:
            self._steps.append(_Scheduled(key, apart, self._latest))
        return apart

    def forget(self, gone: Iterable[str]) -> None:
        """These requests ended."""
        for request_id in gone:
            self._limits.pop(request_id, None)
            self._early.pop(request_id, None)
            self._ended.pop(request_id, None)
        if not self.active:
            self._asked = self._positions

    def reading(self, key: object) -> None:
        """vLLM is about to read the result of this step. Steps before it never had one."""
        self._reading = None
        if any(step.key is key for step in self._steps):
            while (step := self._steps.popleft()).key is not key:
                pass
            self._reading = step

    def counted(self, request_id: str, drafts: int, accepted: int) -> bool:
        """vLLM counted a draft of the step. True where it is of a request that counts apart."""
        step = self._reading
        if step is None or request_id not in step.apart:
            return False
        step.drafted.append(drafts)
        step.accepted.append(accepted)
        return True

    def end_step(self) -> LimitedStep | None:
        """What limits did in the step whose result was read; None where it had no request with a limit."""
        step, self._reading = self._reading, None
        if step is None:
            return None
        positions = range(self._positions)
        return LimitedStep(
            step.limited,
            tuple(sum(count > position for count in step.drafted) for position in positions),
            tuple(sum(count > position for count in step.accepted) for position in positions),
        )
