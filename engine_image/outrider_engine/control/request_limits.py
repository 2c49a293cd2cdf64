"""K limits: the largest K that a request asks for itself, where 0 means no speculation.

The engine withholds draft tokens beyond the limit from that request, and the others of the batch keep theirs.
A step drafts no more than its requests may verify. Pure except for its own records. Runs on the engine core's
thread, apart from `read_limit` and `read_header`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from outrider_engine.control.support import EngineFacts
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
    """What became of the K limit of a request."""

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
    """

    def __init__(self, facts: EngineFacts, usable: Callable[[], frozenset[int]]) -> None:
        self.outcomes = dict.fromkeys(Outcome, 0)
        """Requests with a K limit, by outcome."""
        self.withheld_tokens = 0
        """Draft tokens that were left out."""
        self.latest: tuple[int, ...] = ()
        """By position, requests of the latest step whose limit leaves it out; empty without any."""
        self._positions = 0 if facts.method in _NO_DRAFTS else facts.num_speculative_tokens
        self._usable = usable
        self._limits: dict[str, int] = {}
        self._asked = self._positions
        self._steps: deque[_Scheduled] = deque(maxlen=MAX_STEPS_IN_FLIGHT)
        self._reading: _Scheduled | None = None

    @property
    def active(self) -> bool:
        """Whether a request of the engine has a limit."""
        return bool(self._limits)

    def admit(self, request_id: str, extra_args: Mapping[str, object] | None) -> None:
        """A request arrived. A limit that cannot be read is ignored, since the request is in the engine."""
        if not extra_args or KEY not in extra_args:
            return
        try:
            limit = read_limit(extra_args[KEY])
        except InvalidLimit:
            self.outcomes[Outcome.INVALID] += 1
            return
        if limit >= self._positions:
            self.outcomes[Outcome.NO_EFFECT] += 1
            return
        self.outcomes[Outcome.APPLIED] += 1
        self._limits[request_id] = limit

    def outcomes_by_name(self) -> dict[str, int]:
        """`outcomes` as plain types."""
        return {outcome.value: count for outcome, count in self.outcomes.items()}

    def disable(self) -> None:
        """Limit no request any more."""
        self._positions = 0
        self._limits.clear()
        self._steps.clear()
        self.latest, self._reading = (), None

    def of(self, request_id: str) -> int | None:
        """Draft tokens that a request may verify in a step, a K that the engine can run; None: all."""
        limit = self._limits.get(request_id)
        usable = self._usable() if limit else None
        return limit if not limit or not usable else max((k for k in usable if k <= limit), default=0)

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
        limits = {name: limit for name in request_ids if (limit := self.of(name)) is not None}
        asked, self._asked = self._asked, k
        apart = frozenset(name for name, limit in limits.items() if limit < asked)
        counts = [0] * self._positions
        for limit in limits.values():
            for position in range(limit, self._positions):
                counts[position] += 1
        self.latest = tuple(counts) if limits else ()
        if limits:
            self._steps.append(_Scheduled(key, apart, self.latest))
        return apart

    def forget(self, gone: Iterable[str]) -> None:
        """These requests ended."""
        for request_id in gone:
            self._limits.pop(request_id, None)
        if not self._limits:
            self.latest, self._asked = (), self._positions

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
