"""The result of a bench, as text for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from pydantic import JsonValue

from outrider.api.status import DecisionRecord
from outrider.bench.arms import AS_IT_IS, NO_DRAFTS, Arm
from outrider.bench.guidellm import Slice
from outrider.bench.verdict import Interval, Verdict, against_best, gains, geometric, mean_amount, verdict


@dataclass(frozen=True, slots=True)
class Setting:
    """The options of a bench."""

    namespace: str
    name: str
    streams: int
    seconds: float  # of a measurement
    rounds: int
    max_tokens: int
    seed: int
    price_per_hour: float | None = None  # dollars of all that answered
    simulated: str | None = None  # the hardware that engines simulate
    rate: float | None = None  # requests per second in place of streams

    @property
    def load(self) -> str:
        """In words."""
        return f"{self.streams} streams" if self.rate is None else f"{self.rate:g} requests/s"


@dataclass(frozen=True, slots=True)
class Unread:
    """The tuner's decisions could not be read. why: one line."""

    why: str


@dataclass(frozen=True, slots=True)
class Result:
    """Measurements of complete rounds by arm, in order. ended: why the bench ended early, if it did."""

    setting: Setting
    slices: Mapping[Arm, Sequence[Slice]]
    decisions: Sequence[DecisionRecord] | Unread = ()  # of the tuner meanwhile, newest first
    ended: str | None = None

    @property
    def rounds(self) -> int:
        """The number of complete rounds."""
        return min(map(len, self.slices.values()))

    @property
    def rates(self) -> dict[Arm, list[float]]:
        """Tokens per second by arm and round."""
        return {arm: [each.tokens_per_second for each in found] for arm, found in self.slices.items()}

    @property
    def speeds(self) -> dict[Arm, list[float]]:
        """What arms are compared by: tokens per second of all streams; with a rate, of one answer.

        With a rate, arrivals decide the tokens per second of all answers.
        """
        if self.setting.rate is None:
            return self.rates
        return {
            # A measurement in which no answer finished ends the bench.
            arm: [each.answer_tokens_per_second for each in found if each.answer_tokens_per_second]
            for arm, found in self.slices.items()
        }

    @property
    def compared_by(self) -> str:
        """The figure of `speeds`, in words."""
        return "tokens per second" if self.setting.rate is None else "tokens per second of an answer"

    @property
    def failed(self) -> int:
        """The number of requests that failed."""
        return sum(each.failed for found in self.slices.values() for each in found)


def dollars(rates: Mapping[Arm, Sequence[float]], price_per_hour: float) -> dict[Arm, Interval]:
    """Dollars per million output tokens, by arm. price_per_hour: of all GPUs, always as busy as then."""
    return {
        arm: geometric([price_per_hour / 3600 / rate * 1e6 for rate in found]) for arm, found in rates.items()
    }


WORDS = {
    Verdict.PAYS: "speculation pays",
    Verdict.COSTS: "speculation costs more than it brings",
    Verdict.UNSURE: "no clear difference from K=0; run more --rounds or longer --seconds",
}


def text_of(result: Result) -> Iterator[str]:
    """Lines for people, of up to 80 columns; a line about an error may be longer."""
    setting, rates, speeds = result.setting, result.rates, result.speeds
    yield (
        f"{setting.namespace}/{setting.name}, {setting.load}, "
        f"{result.rounds} rounds of {setting.seconds:g} s, 95 % in brackets"
    )
    if result.ended is not None:
        yield f"ended after {result.rounds} of {setting.rounds} rounds: {result.ended}"
    if setting.simulated is not None:
        yield f"simulated: engines compute nothing and sleep the step times of {setting.simulated}"
    yield f"{'arm':<9} {'tokens/s':>20}  {'over K=0':>19}  {'first':>8}  {'next':>8}"
    found = gains(speeds)
    for arm, values in rates.items():
        gain = found.get(arm)
        cells = (with_interval(mean_amount(values), 0), "" if gain is None else with_interval(gain, 2))
        yield f"{arm.name:<9} {cells[0]:>20}  {cells[1]:>19}  {_waits(result.slices[arm])}"
    yield "first, next: ms to the first token, and between two tokens"
    if setting.rate is not None:
        yield "over K=0: by the pause between two tokens, because arrivals decide tokens/s"
    gain = found[AS_IT_IS]
    yield f"Verdict: {WORDS[verdict(gain)]}: {percent(gain)} over K=0"
    best = against_best(speeds)
    if best is not None:
        arm, compared = best
        yield f"Against {arm.name}, the best single K: {percent(compared)}"
    if setting.price_per_hour is not None:
        costs = dollars(rates, setting.price_per_hour)
        for arm, cost in costs.items():
            yield f"$ per million tokens, {arm.name}: {with_interval(cost, 2)}"
    if result.failed:
        yield f"{result.failed} requests failed"
    if isinstance(result.decisions, Unread):
        yield f"The decisions of the tuner could not be read: {result.decisions.why}"


def json_of(result: Result) -> dict[str, JsonValue]:
    """All measurements for programs. Rates in tokens per second, gains as ratios of what `comparedBy` names.

    Decisions that could not be read are null.
    """
    rates, setting = result.rates, result.setting
    found, best = gains(result.speeds), against_best(result.speeds)
    price = setting.price_per_hour
    costs = None if price is None else dollars(rates, price)
    arms: list[JsonValue] = []
    for arm, slices in result.slices.items():
        entry: dict[str, JsonValue] = {
            "arm": arm.name,
            "k": arm.k,
            "tokensPerSecond": asdict(mean_amount(rates[arm])),
            "overK0": None if arm == NO_DRAFTS else asdict(found[arm]),
            "dollarsPerMillionTokens": None if costs is None else asdict(costs[arm]),
            "slices": [asdict(each) for each in slices],
        }
        arms.append(entry)
    decisions, unread = _decisions(result.decisions)
    return {
        "setting": asdict(setting),
        "ended": result.ended,
        "comparedBy": result.compared_by,
        "arms": arms,
        "verdict": verdict(found[AS_IT_IS]),
        "bestHeld": None if best is None else {"arm": best[0].name, "asItIsOverIt": asdict(best[1])},
        "decisions": decisions,
        "decisionsUnread": unread,
        "failed": result.failed,
    }


def _decisions(found: Sequence[DecisionRecord] | Unread) -> tuple[JsonValue, str | None]:
    if isinstance(found, Unread):
        return None, found.why
    return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in found], None


def with_interval(found: Interval, digits: int) -> str:
    """A value with its interval, such as 12.3 [11.9, 12.7]."""
    return f"{found.value:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def percent(found: Interval) -> str:
    """A ratio as a change in percent, with its interval."""
    value, low, high = (100 * (part - 1) for part in (found.value, found.low, found.high))
    return f"{value:+.1f} % [{low:+.1f}, {high:+.1f}]"


def _waits(slices: Sequence[Slice]) -> str:
    firsts = [each.first_token_ms for each in slices if each.first_token_ms is not None]
    nexts = [each.between_tokens_ms for each in slices if each.between_tokens_ms is not None]
    cells = (f"{sum(found) / len(found):.1f}" if found else "-" for found in (firsts, nexts))
    return "  ".join(f"{cell:>8}" for cell in cells)
