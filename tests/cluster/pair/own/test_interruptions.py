"""What breaks in the middle of something: an engine, the operator."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field

import pytest

from outrider_protocol.bins import batch_bins
from outrider_protocol.schedule import Schedule
from tests.cluster.engines import Page, page, ready_pods, signal_engine_core, state
from tests.cluster.kubectl import wait_for
from tests.cluster.models import in_force
from tests.cluster.operator_pod import kill_operator
from tests.cluster.pair import NAME, TICK, TICKS, evidence, look, override, rules, tune
from tests.cluster.pair.watching import changed_evidence, pages, seconds_until
from tests.cluster.sending import Sender

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.engine("twin", "starts")]

TAKEOVER = 180.0
"""On a quiet machine it takes a tenth of that; what it took is printed."""
LONG = 150.0
"""On a machine where a slice takes seconds and not a second."""
KEPT_SHARE = 0.7
"""Older measurements count less, but none is thrown away."""
CRASH = 1
"""Of the pushes: the engine core has stopped before it, so that it waits for an answer when the core dies."""
SILENCE = 10.0
"""Of twelve streams some are on the other pod, or come to it at their next try."""


async def test_a_crash_in_the_middle_of_pushes_holds_up_no_other_pod(pair: Sender) -> None:
    rules(3)
    crashes, other = ready_pods(NAME)
    boots = {pod: state(pod)["bootId"] for pod in (crashes, other)}
    waits: list[float] = []
    async with pair.holding(streams=12) as came_to:
        await asyncio.sleep(2)
        for push, k in enumerate((1, 2, 5, 1, 2)):
            if push == CRASH:
                signal_engine_core(crashes, "SIGSTOP")
            override(f"*:{k}")
            waits.append(await seconds_until(lambda k=k: uses(other, k), at_most=TICKS))  # type: ignore[misc]
            if push == CRASH:
                signal_engine_core(crashes, "SIGKILL")
    print("the other pod had each table after", [f"{wait:.1f} s" for wait in waits])
    print(came_to)
    assert statistics.median(waits) < 2 * TICK
    (sent,) = came_to
    assert sent.tokens > 0
    assert sent.silent_seconds < SILENCE
    wait_for("both have K=2", look, in_force("*:2", replicas=2), seconds=180)
    now = {pod: state(pod) for pod in (crashes, other)}
    assert now[other]["bootId"] == boots[other]
    assert now[crashes]["bootId"] != boots[crashes]
    assert {found["source"] for found in now.values()} == {"Pushed"}
    assert len({(found["term"], found["epoch"]) for found in now.values()}) == 1


async def test_an_operator_that_dies_in_a_probe_leaves_no_step_and_learns_nothing_twice(pair: Sender) -> None:
    tune("Auto")
    pods = ready_pods(NAME)
    async with pair.holding(streams=8) as first:
        await seconds_until(lambda: len(evidence()) >= 2, at_most=LONG)
        # Batches of a size of which nothing is known yet have to be tried.
        async with pair.holding(streams=24) as more:
            await seconds_until(lambda: any(found.probing for found in pages(pods).values()), at_most=LONG)
            known = evidence()
            kill_operator()
            seen = await Seen(pods).until_new_term(seconds=TAKEOVER)
            after = await changed_evidence(evidence())
    print(f"first push after {seen.seconds:.1f} s, end of the probe after {seen.probed_until:.1f} s")
    print(f"tables by term and epoch: {seen.tables}")
    print(f"seconds of evidence before: {known}; after: {after}")
    assert seen.probed_until < TICKS
    for pod in pods:
        assert not seen.steps(pod), f"{pod}: {seen.tables[pod]}"
    assert seen.shortest_lease > 0
    assert after.keys() >= known.keys()
    assert all(after[cell] >= KEPT_SHARE * seconds for cell, seconds in known.items())
    for sent in (*first, *more):
        assert (sent.failed, sent.errors) == (0, ())


@dataclass
class Seen:
    """What engines used from one operator's end to the first push of the next one, probes aside."""

    pods: list[str]
    tables: dict[str, dict[tuple[int, int], set[str]]] = field(default_factory=dict)
    """By pod, then by term and epoch, in the order of time."""
    probed_until: float = 0.0
    shortest_lease: float = float("inf")
    seconds: float = 0.0

    async def until_new_term(self, *, seconds: float) -> Seen:
        """Look until both engines have a table of the new operator."""
        began = time.monotonic()
        for pod in self.pods:
            self._note_beneath_the_probe(pod)
        terms = {pod: term for pod in self.pods for term, _ in self.tables[pod]}
        waiting = set(self.pods)
        while waiting:
            self.seconds = time.monotonic() - began
            assert self.seconds < seconds, f"no new term in {waiting}"
            for pod, found in pages(sorted(waiting)).items():
                self._note(pod, found)
                if found.term != terms[pod]:
                    waiting.discard(pod)
            await asyncio.sleep(0.2)
        return self

    def steps(self, pod: str) -> bool:
        """The table changed without a push, or with the first push of the new operator."""
        *_, last, first = self.tables[pod].values()
        return any(len(used) != 1 for used in self.tables[pod].values()) or last != first

    def _note_beneath_the_probe(self, pod: str) -> None:
        """A probe may last until the push, and then nothing else would show the table before it."""
        now = state(pod)
        beneath = Schedule.from_wire(now["schedule"])
        table = {batch.label: beneath.k_at(batch.low) for batch in batch_bins(now["maxNumSeqs"])}
        self.tables[pod] = {(now["term"], now["epoch"]): {str(table)}}

    def _note(self, pod: str, found: Page) -> None:
        self.shortest_lease = min(self.shortest_lease, found.lease_seconds)
        if found.probing:
            self.probed_until = self.seconds
        else:
            self.tables[pod].setdefault((found.term, found.epoch), set()).add(str(found.table))


def uses(pod: str, k: int) -> bool:
    """Every batch drafts this K."""
    found = page(pod)
    return found is not None and set(found.table.values()) == {k}
