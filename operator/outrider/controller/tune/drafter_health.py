"""How well drafts are accepted, and what to do about it: the condition `DrafterHealthy`. Pure.

The measure is acceptance at the first position: the share of drafts whose first token was accepted. It does
not depend on K. Accepted over all drafted tokens falls with K, so the same drafter looks worse the more it
drafts; that figure is shown as information only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outrider.api.conditions import Condition, ConditionStatus, Statement
from outrider.api.reasons import DrafterReason
from outrider.api.speculation import TuningMode
from outrider.controller.tune.model_tuner import TickOutcome
from outrider.tuning.decision import Acceptance
from outrider.tuning.observe.window import Window

EXCELLENT, GOOD, MARGINAL = 0.8, 0.6, 0.4
"""Least acceptance at the first position of each band. One draft token pays where it is accepted more often
than it costs of a step; published costs are 0.1 to 0.3 of a step, so below 0.4 even K=1 hardly pays."""

_BROKEN = 0.05
"""A trained drafter guesses the next token better than this on any text that its target writes."""
_DRAFTS_TO_JUDGE = 200
"""With so many drafts a drafter of 0.15 stays below `_BROKEN` by chance less than once in ten thousand."""

_SHORT_ANSWER_TOKENS = 50
"""Below it the prompt takes most of the time, which drafts do not shorten."""
_ANSWERS_TO_JUDGE = 5


@dataclass(frozen=True, slots=True)
class Answers:
    """Requests that began in the last minute, and all tokens that were generated in it."""

    requests: float
    tokens: float

    @classmethod
    def of(cls, windows: Sequence[Window]) -> Answers:
        """Over all pods by sums."""
        return cls(sum(w.first_tokens for w in windows), sum(w.tokens for w in windows))

    @property
    def short(self) -> bool:
        """Whether the mean answer is too short for speculation to matter much."""
        return self.requests >= _ANSWERS_TO_JUDGE and self.tokens / self.requests < _SHORT_ANSWER_TOKENS


def drafter_health(
    outcome: TickOutcome, acceptance: Acceptance | None, answers: Answers, last: Condition | None
) -> Statement | None:
    """What is known of the drafter; None where nothing was drafted and nothing stands from before.

    acceptance: of the last minute. last: the condition as it was reported before.
    """
    if _collapsed(outcome, last):
        return _statement(DrafterReason.COLLAPSED, acceptance, answers)
    if _mismatched(outcome, acceptance, last):
        return _statement(DrafterReason.NOTHING_ACCEPTED, acceptance, answers)
    if acceptance is None:
        return None
    for least, reason in (
        (EXCELLENT, DrafterReason.EXCELLENT),
        (GOOD, DrafterReason.GOOD),
        (MARGINAL, DrafterReason.MARGINAL),
    ):
        if acceptance.first >= least:
            return _statement(reason, acceptance, answers)
    return _statement(DrafterReason.POOR, acceptance, answers)


_HEALTHY = (DrafterReason.EXCELLENT, DrafterReason.GOOD, DrafterReason.MARGINAL)

_ADVICE = {
    DrafterReason.COLLAPSED: (
        "Far fewer drafts are accepted than before: run `outrider verify`, which compares answers with and"
        " without speculation."
    ),
    DrafterReason.NOTHING_ACCEPTED: (
        "Almost no draft was ever accepted, so the drafter is broken or was made for another model: check"
        " that spec.speculation.drafter names one for spec.model, with the same vocabulary and revision."
    ),
    DrafterReason.POOR: (
        "Outrider drafts less, because drafts are seldom accepted on this text; to gain more, use a drafter"
        " that was trained on such text."
    ),
}


def _statement(reason: DrafterReason, acceptance: Acceptance | None, answers: Answers) -> Statement:
    status = ConditionStatus.TRUE if reason in _HEALTHY else ConditionStatus.FALSE
    return Statement(status, reason, " ".join(_sentences(reason, acceptance, answers)))


def _sentences(reason: DrafterReason, acceptance: Acceptance | None, answers: Answers) -> Iterator[str]:
    if acceptance is None:
        yield "Nothing was drafted in the last minute."
    else:
        yield (
            f"{acceptance.first:.0%} of the first draft tokens accepted in the last minute,"
            f" {acceptance.rate:.0%} of all draft tokens, {acceptance.length:.1f} tokens per step."
        )
    if reason in _ADVICE:
        yield _ADVICE[reason]
    if answers.short:
        yield (
            f"Answers have {answers.tokens / answers.requests:.0f} tokens on average: with fewer than"
            f" {_SHORT_ANSWER_TOKENS} the prompt takes most of the time, and speculation gains little."
        )


def _collapsed(outcome: TickOutcome, last: Condition | None) -> bool:
    """Until drafts are sound again: the tuner turns off what fails, and K=0 must not hide why."""
    decision = outcome.decision
    if outcome.model.mode is TuningMode.OFF or not outcome.model.pods:
        return False
    stands = last is not None and last.reason == DrafterReason.COLLAPSED
    if decision is None:
        return stands
    if decision.acceptance_collapsed:
        return True
    if decision.acceptance is None or not decision.acceptance.per_position:
        return stands
    # One bad tick may be chance, but with K=0 there is no second one.
    return decision.state.collapsed > 0 and (stands or decision.num_speculative_tokens == 0)


def _mismatched(outcome: TickOutcome, acceptance: Acceptance | None, last: Condition | None) -> bool:
    """Whether almost nothing was accepted since the first request; K=0, which follows, does not end it.

    Methods that search the text are left out: on prose they find almost nothing, and nothing is broken.
    """
    if outcome.model.searches_text or not outcome.model.pods:
        return False
    if acceptance is None:
        return last is not None and last.reason == DrafterReason.NOTHING_ACCEPTED
    accepted, drafted = acceptance.first * acceptance.drafts, acceptance.drafts
    if outcome.decision is not None:
        state = outcome.decision.state
        accepted, drafted = max(accepted, state.first_accepted), max(drafted, state.first_drafted)
    elif last is not None and last.reason in _HEALTHY:
        return False  # without a tuner there is no other history
    return drafted >= _DRAFTS_TO_JUDGE and accepted < _BROKEN * drafted
