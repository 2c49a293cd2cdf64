"""`AcceptanceCollapsed` stays until drafts are sound again, although the tuner turns drafting off at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from outrider.api.conditions import Condition, ConditionStatus, ConditionType
from outrider.api.reasons import DrafterReason
from outrider.api.tuning import TuningMode
from outrider.controller.fleet import TunedModel
from outrider.controller.tune.report import TunerReport, report
from outrider.tuning.decision import Acceptance, Decision
from outrider_protocol.schedule import Schedule
from tests.unit.reasons.tuner_scenes import MODEL, an_outcome, told
from tests.unit.tuning.factories import Engine, a_start, run, with_parts
from tests.unit.tuning.launching import a_decision
from tests.unit.tuning_loop.factories import NOW

TICK, MINUTES = 5.0, 5
BROKEN = Engine(8.0, table={1: (100,) * 5, 64: (3000, 2000, 1500, 1200, 900)}, acceptance=0.02)
COLLAPSED = Condition(
    type=ConditionType.DRAFTER_HEALTHY,
    status=ConditionStatus.FALSE,
    reason=DrafterReason.COLLAPSED,
    last_transition_time=datetime.fromtimestamp(NOW, UTC),
)


def after(decision: Decision | None, *before: Condition, model: TunedModel = MODEL) -> bool:
    """Whether a tick with this decision says that acceptance collapsed."""
    return DrafterReason.COLLAPSED in told(an_outcome(decision=decision, model=model), before=before)


def drafted(*, bad_ticks: int, k: int = 3) -> Decision:
    """A tick with drafts, the last of so many in a row that failed. k: wanted from now on."""
    found = a_decision(table=Schedule.constant(k))
    return replace(
        found,
        state=with_parts(found.state, collapsed=bad_ticks),
        acceptance=Acceptance(0.1, 1.1, (0.1,)),
        acceptance_collapsed=bad_ticks >= 2,
    )


NOTHING_DRAFTED = a_decision(table=Schedule.constant(0))


def told_of(decisions: Sequence[Decision]) -> Iterator[bool]:
    """Tick by tick, each with what the one before said."""
    before: tuple[Condition, ...] = ()
    for decision in decisions:
        said = after(decision, *before)
        before = (COLLAPSED,) if said else ()
        yield said


def test_it_is_still_said_minutes_after_the_tuner_has_turned_drafting_off() -> None:
    """The alert asks for minutes, and K=0 comes within seconds."""
    well = run(a_start(), Engine(8.0), ticks=40)
    broken = run(well[-1].state, BROKEN, ticks=int(MINUTES * 60 / TICK), at=40 * TICK)
    off = next(i for i, decision in enumerate(broken) if decision.num_speculative_tokens == 0)

    assert not any(told_of(well))
    assert off * TICK < 30
    assert all(list(told_of(broken))[off:])


def test_it_ends_when_drafts_are_sound_again() -> None:
    assert not after(drafted(bad_ticks=0), COLLAPSED)


def test_one_bad_tick_is_not_believed_while_drafts_go_on() -> None:
    assert not after(drafted(bad_ticks=1))
    assert after(drafted(bad_ticks=2))


def test_one_bad_tick_is_all_there_will_be_where_drafting_is_turned_off() -> None:
    assert after(drafted(bad_ticks=1, k=0))


def test_one_bad_tick_does_not_end_it() -> None:
    assert after(drafted(bad_ticks=1), COLLAPSED)


@pytest.mark.parametrize("decision", [NOTHING_DRAFTED, None], ids=["K=0", "a person's table"])
def test_it_stays_while_nobody_judges_drafts(decision: Decision | None) -> None:
    assert after(decision, COLLAPSED)
    assert not after(decision)


def test_it_ends_where_nothing_is_tuned_and_where_nothing_serves() -> None:
    assert not after(None, COLLAPSED, model=replace(MODEL, mode=TuningMode.OFF))
    assert not after(None, COLLAPSED, model=replace(MODEL, pods=()))


def test_it_ends_with_what_was_learnt() -> None:
    """A person found the answers right, and the text new."""
    said = report(an_outcome(reset="on request"), TunerReport(conditions=(COLLAPSED,))).conditions
    assert ConditionType.DRAFTER_HEALTHY not in {each.type for each in said}
