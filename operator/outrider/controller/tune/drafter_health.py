"""The condition `DrafterHealthy`: how many draft tokens are accepted, and what to do about it. Pure.

The measure is the acceptance rate at the first position, which does not depend on K. The rate over all draft
tokens falls with K, so that the same drafter looks worse the more it drafts. It is information only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outrider.api.conditions import Condition, ConditionStatus, ConditionUpdate
from outrider.api.reasons import DrafterReason
from outrider.api.tuning import TuningMode
from outrider.controller.tune.outcome import TickOutcome
from outrider.tuning.decision import Acceptance
from outrider.tuning.estimate.collapse import Drafts, has_collapsed
from outrider.tuning.estimate.learning import history_of
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Safety
from outrider.tuning.state import Learning

EXCELLENT, GOOD, MARGINAL = 0.8, 0.6, 0.4
"""Minimum acceptance rate at the first position of each band.

One draft token pays if its acceptance rate is above its cost as a ratio of a step. Published costs are 0.1 to
0.3 of a step, so below 0.4 even K=1 hardly pays.
"""

_BROKEN = 0.05
"""Minimum acceptance rate of a trained drafter on any text of its target model."""
_DRAFTS_TO_JUDGE = 200
"""Minimum number of drafts to judge. A drafter of 0.15 then stays below `_BROKEN` once in ten thousand."""

_DRAFTS_TO_RECOVER = 20
"""Minimum number of drafts at K=0 to end a collapse. Its history has to agree, so chance hardly ends it."""

_SHORT_ANSWER_TOKENS = 50
"""Mean tokens per answer below which the prompt takes most of the time, which drafts do not shorten."""
_ANSWERS_TO_JUDGE = 5


@dataclass(frozen=True, slots=True)
class Answers:
    """Requests that began in the last minute, and all tokens generated in it."""

    requests: float
    tokens: float

    @classmethod
    def of(cls, windows: Sequence[Window]) -> Answers:
        """The sums over the windows of all pods."""
        return cls(sum(w.first_tokens for w in windows), sum(w.tokens for w in windows))

    @property
    def short(self) -> bool:
        """Whether the mean answer is too short for speculation to matter much."""
        return self.requests >= _ANSWERS_TO_JUDGE and self.tokens / self.requests < _SHORT_ANSWER_TOKENS


def drafter_health(
    outcome: TickOutcome, acceptance: Acceptance | None, answers: Answers, last: Condition | None
) -> ConditionUpdate | None:
    """The condition of the drafter; None if nothing was drafted and no earlier condition remains.

    acceptance: that of the last minute. last: the condition of the last report.
    """
    if _collapsed(outcome, acceptance, last):
        reason = DrafterReason.COLLAPSED
    elif _mismatched(outcome, acceptance, last):
        reason = DrafterReason.NOTHING_ACCEPTED
    elif acceptance is None:
        return None
    else:
        reason = next((band for least, band in _BANDS if acceptance.first >= least), DrafterReason.POOR)
    status = ConditionStatus.TRUE if reason in _HEALTHY else ConditionStatus.FALSE
    sentences = [*_sentences(reason, acceptance, answers)]
    if outcome.model.moves_cache and reason not in _HEALTHY and not outcome.model.searches_text:
        sentences.append(_MOVED)
    return ConditionUpdate(status, reason, " ".join(sentences))


_BANDS = (
    (EXCELLENT, DrafterReason.EXCELLENT),
    (GOOD, DrafterReason.GOOD),
    (MARGINAL, DrafterReason.MARGINAL),
)
_HEALTHY = tuple(reason for _, reason in _BANDS)

_ADVICE = {
    DrafterReason.COLLAPSED: (
        "Outrider does not raise K, because far fewer drafts are accepted than before. Run `outrider verify`:"
        " it compares answers with and without speculation."
    ),
    DrafterReason.NOTHING_ACCEPTED: (
        "Almost no draft was ever accepted, so the drafter is broken or made for another model. Check that"
        " spec.speculation.drafter was made for spec.model, with the same vocabulary and revision."
    ),
    DrafterReason.POOR: (
        "Outrider drafts less, because drafts are seldom accepted on this text. To gain more, use a drafter"
        " that was trained on such text."
    ),
}


_MOVED = (
    "The engine has a KV connector. Some connectors do not move the drafter's part of the cache, and drafts"
    " are then lost without an error (vllm#54926). Compare with an engine without the connector."
)


def _sentences(reason: DrafterReason, acceptance: Acceptance | None, answers: Answers) -> Iterator[str]:
    if acceptance is None:
        yield "The engines drafted nothing in the last minute."
    else:
        yield (
            f"In the last minute {_percent(acceptance.first)} of the first draft tokens were accepted and"
            f" {_percent(acceptance.rate)} of all; a drafted step gave {acceptance.length:.1f} tokens."
        )
    if reason in _ADVICE:
        yield _ADVICE[reason]
    if answers.short:
        yield (
            f"Answers have {answers.tokens / answers.requests:.0f} tokens on average. Below"
            f" {_SHORT_ANSWER_TOKENS} the prompt takes most of the time, and speculation gains little."
        )


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %"


def _collapsed(outcome: TickOutcome, acceptance: Acceptance | None, last: Condition | None) -> bool:
    """Whether acceptance collapsed. It stays so, also with K=0, until drafts agree with the history."""
    decision = outcome.decision
    if outcome.model.mode is TuningMode.OFF or not outcome.model.pods:
        return False
    stands = last is not None and last.reason == DrafterReason.COLLAPSED
    if decision is None:
        return stands
    learning = decision.state.learning
    if decision.acceptance_collapsed or (acceptance is not None and _far_below(acceptance, learning)):
        return True
    if decision.acceptance is None or not decision.acceptance.per_position:
        return stands and not _recovered(acceptance, learning)
    # One bad tick may be chance, but K=0 allows no second one.
    return learning.collapsed > 0 and (stands or decision.num_speculative_tokens == 0)


def _far_below(acceptance: Acceptance, learning: Learning) -> bool:
    """Whether the drafts of the last minute were accepted far less often than those of the tuner's history.

    An engine that rests at K=0 and drafts single steps to see acceptance counts these drafts under no K. So
    the tuner, which learns by K, misses them.
    """
    newest, history = _first_tokens(acceptance), history_of(learning)
    return newest.drafted > 0 and has_collapsed(newest, history, ratio=Safety().collapse_ratio)


def _recovered(acceptance: Acceptance | None, learning: Learning) -> bool:
    """Whether engines that rest at K=0 draft enough single steps, and these agree with the history.

    Engines that do not choose K draft nothing there. The last minute then has the drafts of before.
    """
    history = history_of(learning)
    if acceptance is None or learning.followed is None or learning.collapsed or history.drafted <= 0:
        return False
    newest = _first_tokens(acceptance)
    return newest.drafted >= _DRAFTS_TO_RECOVER and newest.rate >= Safety().collapse_ratio * history.rate


def _first_tokens(acceptance: Acceptance) -> Drafts:
    # Without counts by position: accepted tokens per draft are at least the accepted first tokens.
    first = acceptance.first if acceptance.per_position else min(1.0, acceptance.length - 1.0)
    return Drafts(first * acceptance.drafts, acceptance.drafts)


def _mismatched(outcome: TickOutcome, acceptance: Acceptance | None, last: Condition | None) -> bool:
    """Whether almost nothing was accepted since the first request. K=0, which follows, does not end it.

    Methods that search the text are exempt: on prose they find almost nothing.
    """
    if outcome.model.searches_text or not outcome.model.pods:
        return False
    if acceptance is None:
        return last is not None and last.reason == DrafterReason.NOTHING_ACCEPTED
    accepted, drafted = acceptance.first * acceptance.drafts, acceptance.drafts
    if outcome.decision is not None:
        learning = outcome.decision.state.learning
        accepted, drafted = max(accepted, learning.first_accepted), max(drafted, learning.first_drafted)
    elif last is not None and last.reason in _HEALTHY:
        return False  # without a tuner there is no other history
    return drafted >= _DRAFTS_TO_JUDGE and accepted < _BROKEN * drafted
