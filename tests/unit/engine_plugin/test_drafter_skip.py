"""Which steps go without the drafter, and that it knows whatever it drafts for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider_engine.idle_drafter.drafter_skip import (
    MAX_BEHIND,
    MAX_STEPS,
    SKIP,
    DrafterOrder,
    DrafterSkip,
    Step,
)

BLOCK = 4
TEXT = list(range(1000, 9000))
"""The text of every request; a token names its position."""


@dataclass
class FakeStep:
    """A step of which each request has one token to compute by default."""

    computed: Mapping[str, int]
    num_speculative_tokens: int = 0
    only_decodes: bool = True
    drafter_can_run: bool = True
    gone: Sequence[str] = ()
    begun: Mapping[str, list[list[int]]] = field(default_factory=dict)
    grown: Mapping[str, list[list[int]]] = field(default_factory=dict)
    held: Mapping[str, list[int]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    known: int = len(TEXT)

    @property
    def tokens(self) -> Mapping[str, int]:
        return dict.fromkeys(self.computed, 1) | dict(self.counts)

    def read(self) -> Step:
        return Step(
            num_speculative_tokens=self.num_speculative_tokens,
            drafter_can_run=self.drafter_can_run,
            num_tokens=sum(self.tokens.values()),
            computed=self.computed,
            gone=self.gone,
            begun=self.begun,
            grown=self.grown,
            text=lambda _, begin, end: TEXT[: self.known][begin:end],
            blocks=lambda name: [self.held.get(name, [])],
        )


def scheduled(following: DrafterSkip, step: FakeStep) -> DrafterOrder | None:
    return following.scheduled(step.num_speculative_tokens == 0 and step.only_decodes, step.read)


def a_following(*, max_tokens: int = 8192, unsure: int = 0, reads_states: bool = False) -> DrafterSkip:
    return DrafterSkip(
        block_sizes=[BLOCK],
        max_tokens=max_tokens,
        max_drafts=3,
        unsure=unsure,
        reads_states=reads_states,
    )


def idle(following: DrafterSkip, *positions: int, name: str = "a") -> list[DrafterOrder | None]:
    """Steps that decode one token each with K=0."""
    return [scheduled(following, FakeStep({name: position})) for position in positions]


def test_a_step_that_only_decodes_with_k_0_goes_without_the_drafter() -> None:
    following = a_following()
    assert idle(following, 10, 11) == [SKIP] * 2
    assert (following.steps_skipped, following.left_out) == (2, True)


@pytest.mark.parametrize(
    "step",
    [FakeStep({"a": 10}, num_speculative_tokens=3), FakeStep({"a": 0}, only_decodes=False)],
    ids=["drafts", "prompt"],
)
def test_a_step_that_drafts_or_has_a_prompt_is_left_to_vllm(step: FakeStep) -> None:
    assert scheduled(a_following(), step) is None


def test_only_of_the_latest_step_it_is_told_whether_it_has_drafts() -> None:
    following = a_following()
    idle(following, 10)
    scheduled(following, FakeStep({"a": 11}, num_speculative_tokens=3))
    assert not following.left_out


def test_before_it_drafts_again_it_reads_what_it_missed() -> None:
    following = a_following()
    idle(following, 10, 11, 12)
    drafting = FakeStep({"a": 13}, num_speculative_tokens=3)
    assert scheduled(following, drafting) == DrafterOrder(missed={"a": (10, TEXT[10:13])})
    assert scheduled(following, FakeStep({"a": 14}, num_speculative_tokens=3)) is None
    assert following.tokens_caught_up == 3


def test_it_reads_nothing_for_a_request_that_ended() -> None:
    following = a_following()
    idle(following, 10)
    assert scheduled(following, FakeStep({"b": 5}, num_speculative_tokens=3, gone=["a"])) is None


def test_a_request_that_gave_way_holds_back_no_states_of_others() -> None:
    """In a step without an order the worker drops what it keeps."""
    following = a_following(reads_states=True)
    idle(following, 10)
    assert scheduled(following, FakeStep({"b": 5}, num_speculative_tokens=3, gone=["a"])) is None


def test_a_preempted_request_is_computed_anew_and_has_missed_nothing() -> None:
    following = a_following()
    idle(following, 10)
    again = FakeStep({"a": 0}, num_speculative_tokens=3, only_decodes=False, begun={"a": [[1, 2, 3]]})
    assert scheduled(following, again) is None


def test_it_never_falls_further_behind_than_a_short_prompt() -> None:
    following = a_following()
    orders = idle(following, *range(MAX_BEHIND + 1))
    assert orders[:-1] == [SKIP] * MAX_BEHIND
    assert orders[-1] == DrafterOrder(skip=True, behind=True, missed={"a": (0, TEXT[:MAX_BEHIND])})


def test_of_a_step_in_which_it_reads_what_it_missed_it_misses_the_tokens_itself() -> None:
    following = a_following()
    idle(following, *range(MAX_BEHIND + 1))
    assert scheduled(following, FakeStep({"a": MAX_BEHIND + 1}, num_speculative_tokens=3)) == DrafterOrder(
        missed={"a": (MAX_BEHIND, TEXT[MAX_BEHIND : MAX_BEHIND + 1])}
    )


def test_what_requests_missed_that_ended_holds_nobody_up() -> None:
    following = a_following()
    idle(following, *range(MAX_BEHIND))
    after = FakeStep({"b": 5}, gone=["a"])
    assert scheduled(following, after) == SKIP


def test_what_one_pass_cannot_hold_is_read_in_the_next() -> None:
    following = a_following(max_tokens=12)
    for position in range(6):
        scheduled(following, FakeStep({"a": position}, held={"a": [1, 2]}))
    prefixes = {"b": [[1, 2, 3]], "c": [[1, 2, 4]]}
    steps = (
        FakeStep({"b": 8, "c": 8}, num_speculative_tokens=3, only_decodes=False, gone=["a"], begun=prefixes),
        FakeStep({"b": 9, "c": 9}, num_speculative_tokens=3),
        FakeStep({"b": 10, "c": 10}, num_speculative_tokens=3),
    )
    assert [scheduled(following, step) for step in steps] == [
        DrafterOrder(missed={"b": (0, TEXT[:8]), "c": (0, TEXT[:2])}, behind=True),
        DrafterOrder(missed={"c": (2, TEXT[2:8])}),
        None,
    ]


def test_it_waits_where_vllm_leaves_the_drafter_out() -> None:
    following = a_following()
    idle(following, 10)
    without = FakeStep({"a": 11}, num_speculative_tokens=3, drafter_can_run=False)
    assert scheduled(following, without) == DrafterOrder(behind=True)
    assert scheduled(following, FakeStep({"a": 12}, num_speculative_tokens=3)) == DrafterOrder(
        missed={"a": (10, TEXT[10:12])}
    )


def test_tokens_that_are_not_known_yet_are_read_later() -> None:
    following = a_following()
    idle(following, 10)
    unknown = FakeStep({"a": 11}, num_speculative_tokens=3, known=10)
    assert scheduled(following, unknown) == DrafterOrder(behind=True)
    assert scheduled(following, FakeStep({"a": 11}, num_speculative_tokens=3)) == DrafterOrder(
        missed={"a": (10, TEXT[10:11])}
    )


def test_a_position_that_may_be_too_high_is_read_from_further_back() -> None:
    following = a_following(unsure=3)
    idle(following, 10)
    assert scheduled(following, FakeStep({"a": 11}, num_speculative_tokens=3)) == DrafterOrder(
        missed={"a": (7, TEXT[7:11])}
    )


def test_a_request_that_takes_over_a_prefix_reads_what_was_missed_in_it_as_it_begins() -> None:
    following = a_following()
    scheduled(following, FakeStep({"a": 6}, held={"a": [1, 2]}))
    beginning = FakeStep(
        {"b": 8}, only_decodes=False, gone=["a"], begun={"b": [[1, 2, 7]]}, held={"b": [1, 2, 7]}
    )
    assert scheduled(following, beginning) == DrafterOrder(missed={"b": (6, TEXT[6:8])})
    beginning.begun, beginning.computed = {"c": [[1, 2, 8]]}, {"c": 8}
    assert scheduled(following, beginning) is None


def test_a_block_that_is_given_to_new_tokens_is_whole() -> None:
    following = a_following()
    scheduled(following, FakeStep({"a": 6}, held={"a": [1, 2]}))
    scheduled(
        following,
        FakeStep({"b": 0}, only_decodes=False, gone=["a"], begun={"b": [[2, 1]]}, held={"b": [2, 1]}),
    )
    taking = FakeStep({"c": 8}, only_decodes=False, gone=["b"], begun={"c": [[2, 1, 3]]})
    assert scheduled(following, taking) is None


# Where the drafter reads hidden states, too.


def test_hidden_states_are_kept_for_so_many_steps() -> None:
    following = a_following(reads_states=True)
    orders = idle(following, *range(MAX_STEPS + 1))
    assert orders[:-1] == [SKIP] * MAX_STEPS
    assert orders[-1] == DrafterOrder(skip=True, behind=True, missed={"a": (0, TEXT[:MAX_STEPS])})


def test_everyone_reads_when_somebody_begins_so_that_nothing_is_kept_for_long() -> None:
    following = a_following(reads_states=True)
    idle(following, 10, 11)
    beginning = FakeStep({"a": 12, "b": 0}, only_decodes=False, begun={"b": [[1]]})
    assert scheduled(following, beginning) == DrafterOrder(missed={"a": (10, TEXT[10:12])})


def test_nothing_counts_as_missed_in_a_step_of_which_no_states_are_kept() -> None:
    following = a_following(reads_states=True)
    assert scheduled(following, FakeStep({"a": 10}, drafter_can_run=False)) is None
    assert scheduled(following, FakeStep({"a": 11}, num_speculative_tokens=3)) is None


def test_blocks_that_nobody_can_read_any_more_are_told_as_they_are_given_back() -> None:
    following = a_following(reads_states=True)
    scheduled(following, FakeStep({"a": 6}, held={"a": [1, 2]}))
    assert following.given_back([[1, 2]]) == {2}
    assert following.given_back([[1, 2]]) == set()


# The law: whatever it drafts for, it knows.


class World:
    """An engine whose KV cache remembers, token by token, what the drafter has read.

    All requests have one text, so any full block serves any other request as a prefix.
    """

    def __init__(self, max_tokens: int, *, reads_states: bool) -> None:
        self.following = a_following(max_tokens=max_tokens, reads_states=reads_states)
        self.states: dict[tuple[int, int], int] = {}  # the newest by slot: the position that they are of
        self.read: set[tuple[int, int]] = set()
        self.running: dict[str, int] = {}
        self.held: dict[str, list[int]] = {}
        self.kept: list[list[int]] = []
        self.gone: list[str] = []
        self.names = count()
        self.fresh = count()

    def slot(self, name: str, position: int) -> tuple[int, int]:
        return self.held[name][position // BLOCK], position % BLOCK

    def block(self) -> int:
        """A new one, or the last one of a request that ended: evicted, unless another request has it."""
        if self.kept and len(self.kept[-1]) > 2:
            block = self.kept[-1].pop()
            self.kept = [blocks for blocks in self.kept if block not in blocks]
            if not any(block in blocks for blocks in self.held.values()):
                self.read -= {(block, offset) for offset in range(BLOCK)}
                return block
        return next(self.fresh)

    def begin(self, prompt: int, *, k: int, shared: bool) -> None:
        name = f"r{next(self.names)}"
        prefix = self.kept[-1][: (prompt - 1) // BLOCK] if shared and self.kept else []
        blocks = self.held[name] = list(prefix)
        computed = len(prefix) * BLOCK
        while len(blocks) * BLOCK < prompt:
            blocks.append(self.block())
        self.step({name: computed}, k=k, begun={name: [blocks]}, counts={name: prompt - computed})
        self.running[name] = prompt

    def decode(self, *, k: int) -> None:
        grown: dict[str, list[list[int]]] = {}
        for name, position in self.running.items():
            if position // BLOCK == len(self.held[name]):
                self.held[name].append(self.block())
                grown[name] = [[self.held[name][-1]]]
        self.step(dict(self.running), k=k, grown=grown)
        self.running = {name: position + 1 for name, position in self.running.items()}

    def end(self) -> None:
        name = next(iter(self.running))
        full = self.running.pop(name) // BLOCK
        if self.following.reads_states:
            unread = self.following.given_back([self.held[name]])
            full = next((i for i, block in enumerate(self.held[name][:full]) if block in unread), full)
        self.kept.append(self.held.pop(name)[:full])
        self.gone.append(name)

    def step(
        self,
        computed: dict[str, int],
        *,
        k: int,
        begun: Mapping[str, list[list[int]]] | None = None,
        grown: Mapping[str, list[list[int]]] | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        if not computed:
            return
        step = FakeStep(
            computed,
            num_speculative_tokens=k,
            only_decodes=not begun,
            begun=begun or {},
            grown=grown or {},
            counts=counts or {},
            held=self.held,
            gone=self.gone,
        )
        order, self.gone = scheduled(self.following, step) or DrafterOrder(), []
        for name, (first, text) in order.missed.items():
            assert text == TEXT[first : first + len(text)]
            if self.following.reads_states:
                states = [self.states.get(self.slot(name, first + index)) for index in range(len(text))]
                assert states == list(range(first, first + len(text)))
            self.read |= {self.slot(name, first + index) for index in range(len(text))}
        if order.skip:
            assert k == 0
            assert not begun
            self.states |= {self.slot(name, position): position for name, position in computed.items()}
            return
        for name, first in computed.items():
            if k > 0:
                unread = [p for p in range(first) if self.slot(name, p) not in self.read]
                assert not unread, f"{name} is drafted for, and {unread} were never read"
            self.read |= {self.slot(name, first + index) for index in range(step.tokens[name])}


ACTIONS = st.one_of(
    st.tuples(st.just("decode"), st.sampled_from([0, 0, 3]), st.integers(1, 9)),
    st.tuples(st.just("begin"), st.sampled_from([0, 3]), st.integers(1, 30)),
    st.tuples(st.just("share"), st.sampled_from([0, 3]), st.integers(1, 30)),
    st.tuples(st.just("end"), st.just(0), st.just(0)),
)


@settings(max_examples=300)
@given(st.lists(ACTIONS, min_size=10, max_size=40), st.booleans())
def test_whatever_it_drafts_for_it_knows(actions: list[tuple[str, int, int]], reads_states: bool) -> None:
    world = World(max_tokens=100_000, reads_states=reads_states)
    for action, k, number in actions:
        if action == "decode":
            for _ in range(number):
                world.decode(k=k)
        elif action == "end":
            if world.running:
                world.end()
        else:
            world.begin(number, k=k, shared=action == "share")
