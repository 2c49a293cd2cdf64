"""Batch sizes where engines never were: the first burst into them must do no harm.

Only step times that engines measured there themselves may promise it more than the static table.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import assume, given, settings, target
from hypothesis import strategies as st

from outrider.tuning.choose.choice import follow_other_bins, measured_ks
from outrider.tuning.decision import Decision
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.estimate.surface import ObservedCell
from outrider.tuning.observe.window import Observation
from outrider.tuning.state import BinState, TunerState
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import CANDIDATES, POLICY, Engine, a_map, a_reading, run, with_parts
from tests.unit.tuning.histories import HISTORIES, after

NOW = 1000.0
BATCH_SIZES = range(1, POLICY.bins[-1] + 2)

HAND = Schedule.parse("8:3,32:1,*:0")
LONG_DRAFTS_PAY: Mapping[int, tuple[float, ...]] = {
    1: (86, 150, 190, 220, 260),
    4: (315, 500, 640, 740, 900),
    8: (551, 800, 900, 950, 1000),
    16: (813, 900, 800, 700, 600),
    32: (977, 900, 800, 683, 582),
}
"""Tokens per second as in `factories.CODE`: at two streams the longest drafts are far ahead."""


def tables() -> st.SearchStrategy[Schedule]:
    edges = st.lists(st.integers(1, 80), max_size=4, unique=True).map(sorted)
    lengths = st.lists(st.sampled_from(CANDIDATES), min_size=5, max_size=5)
    return st.builds(
        lambda uppers, ks: Schedule.parse(
            ",".join(f"{upper}:{k}" for upper, k in zip((*uppers, "*"), ks, strict=False))
        ),
        edges,
        lengths,
    )


CHOICES = st.builds(
    BinState,
    k=st.sampled_from(CANDIDATES),
    decided=st.just(value=True),
    visited=st.booleans(),
    settled_at=st.sampled_from((None, 0.0)),
)
STATES = st.builds(
    lambda static, bins, ks: with_parts(
        TunerState.start(static, POLICY),
        bins=bins,
        known=tuple(ObservedCell(0, k, None, 1.0, -3.0, 0.0, None, 0.0, 0.0) for k in sorted(ks)),
    ).composed(POLICY),
    tables(),
    st.dictionaries(st.integers(0, len(POLICY.bins) - 1), CHOICES, max_size=4),
    st.sets(st.sampled_from(CANDIDATES), min_size=1),
)


@st.composite
def beliefs(draw: st.DrawFn) -> Mapping[int, Posterior]:
    """Of every bin, each for itself."""
    size = len(CANDIDATES)
    log_goodputs = st.lists(st.floats(-2, 2), min_size=size, max_size=size)
    return {
        index: Posterior(
            CANDIDATES,
            8.0,
            np.array(draw(log_goodputs)),
            np.eye(size) * draw(st.floats(0, 0.5)) ** 2,
            np.full(size, -4.0),
        )
        for index in range(len(POLICY.bins))
    }


def visited(state: TunerState, batch_size: int) -> bool:
    found = state.bins.get(POLICY.bin_of(batch_size))
    return found is not None and found.visited


def tied(state: TunerState, batch_size: int) -> bool:
    """Whether something was chosen for a smaller batch."""
    index = POLICY.bin_of(batch_size)
    return any(other < index and found.decided for other, found in state.bins.items())


def most(state: TunerState, batch_size: int) -> int:
    """The maximum K of a batch size without measurements."""
    given = POLICY.allowed(state.static.k_at(batch_size))
    return min(given, state.schedule.k_at(batch_size - 1)) if tied(state, batch_size) else given


def unseen(state: TunerState) -> list[int]:
    return [batch_size for batch_size in BATCH_SIZES if not visited(state, batch_size)]


def assert_careful(state: TunerState) -> None:
    for batch_size in unseen(state):
        assert state.schedule.k_at(batch_size) <= most(state, batch_size)


@given(STATES, beliefs())
@settings(max_examples=100)
def test_whatever_is_believed_an_unseen_batch_size_gets_no_more_than_its_neighbour_and_the_static_table(
    state: TunerState, believed: Mapping[int, Posterior]
) -> None:
    context = TickContext([], state, policy=POLICY, now=NOW, readings=a_reading(0), posteriors=believed)
    after = follow_other_bins(context).state.composed(POLICY)
    promised = [
        believed[POLICY.bin_of(batch_size)].safest(sorted(measured_ks(state)), 1.0) - most(after, batch_size)
        for batch_size in unseen(after)
    ]
    assume(max(promised, default=0) > 0)
    target(float(max(promised)))
    assert_careful(after)


@given(HISTORIES, tables())
@settings(max_examples=40)
def test_whatever_was_measured_an_unseen_batch_size_gets_no_more_than_its_neighbour_and_the_static_table(
    history: list[list[Observation]], static: Schedule
) -> None:
    states = [decision.state for decision in after(history, TunerState.start(static, POLICY))]
    assume(any(choice.decided and not choice.visited for state in states for choice in state.bins.values()))
    for state in states:
        assert_careful(state)


def two_streams(static: Schedule) -> Decision:
    """After 40 s."""
    engine = Engine(2.0, table=LONG_DRAFTS_PAY)
    return run(TunerState.start(static, POLICY), engine, ticks=8)[-1]


def test_two_streams_for_40_s_leave_larger_batches_at_what_the_static_table_says() -> None:
    table = two_streams(HAND).schedule
    assert table.k_at(2) == 5
    assert [table.k_at(batch_size) for batch_size in (4, 16, 40, 64)] == [3, 1, 0, 0]


def test_a_batch_size_that_is_seen_for_the_first_time_begins_with_the_k_that_ran_there() -> None:
    """And not with a guess that the table kept down."""
    smaller = BinState(1, decided=True, visited=True)
    state = TunerState.start(Schedule.constant(3), POLICY).with_bin(3, smaller)
    state = state.with_bin(4, BinState(3, decided=True)).composed(POLICY)
    assert state.schedule.k_at(16) == 1
    met = run(state, Engine(16.0), ticks=1)[0].state
    assert (met.bins[4].k, met.bins[4].visited) == (1, True)
    assert met.schedule.k_at(16) == 1


def test_a_guess_may_be_less_than_the_static_table() -> None:
    """For a static table that is wrong for large batches the first burst is spared."""
    state = run(TunerState.start(Schedule.constant(5), POLICY), Engine(16.0), ticks=20)[-1].state
    assert state.schedule.k_at(60) < 5


NO_DRAFTS_ABOVE_8 = Schedule.parse("8:3,*:0")
MEASURED = a_map(table=LONG_DRAFTS_PAY)


def foretold(step_times: StepTimeProfile | None) -> Decision:
    """After two streams have run for ten seconds."""
    start = TunerState.start(NO_DRAFTS_ABOVE_8, POLICY)
    return run(start, Engine(2.0, table=LONG_DRAFTS_PAY), ticks=2, step_times=step_times)[-1]


def test_where_engines_measured_their_step_times_the_first_burst_gets_what_pays_by_them() -> None:
    assert [foretold(MEASURED).schedule.k_at(batch_size) for batch_size in (16, 32)] == [1, 0]
    assert [foretold(None).schedule.k_at(batch_size) for batch_size in (16, 32)] == [0, 0]


def test_a_batch_size_that_no_cell_of_the_map_is_near_gets_no_more_than_the_static_table() -> None:
    near = StepTimeProfile(tuple(cell for cell in MEASURED.cells if cell.batch_size <= 4))
    assert foretold(near).schedule.k_at(16) == 0


def test_a_map_that_is_believed_no_longer_promises_nothing() -> None:
    told = foretold(MEASURED)
    forgotten = run(told.state, Engine(2.0, table=LONG_DRAFTS_PAY), ticks=1, at=100.0, step_times=None)[-1]
    assert (told.schedule.k_at(16), forgotten.schedule.k_at(16)) == (1, 0)


def test_a_map_that_live_steps_do_not_speak_for_promises_nothing() -> None:
    of_slower_engines = a_map(table=LONG_DRAFTS_PAY, off=lambda _batch, _k: 3.0)
    assert foretold(of_slower_engines).schedule.k_at(16) == 0
