"""The self-test as the front end runs it: it ends, and after any failure engines serve."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import cast

import pytest

from outrider_engine.control.self_test import SelfTest, Trial, TrialResult
from outrider_engine.control.state import unavailable
from outrider_engine.startup.readiness import PROMPT, TEXT_TOKENS, TIE, CoreHangs, SelfTestRun
from outrider_engine.startup.self_test_journal import SelfTestJournal
from outrider_protocol.engine_state import SelfTestState, State
from tests.unit.engine_plugin.factories import CANDIDATES, EnginesByVerb

TOKENS = 10


class FakeEngines(EnginesByVerb):
    """Engine cores that remember what happened to them."""

    def __init__(self, *, trials: bool = True, faults: dict[int, Exception] | None = None) -> None:
        self.trials = [Trial(numSpeculativeTokens=k, tokens=TOKENS) for k in CANDIDATES] if trials else []
        self.faults = faults or {}
        self.current = -1
        self.verdicts: dict[int, str | None] = {}
        self.closed = False
        self.running_for = 0
        self.hangs = False
        self.hangs_for_good_at: int | None = None
        self.dead = False
        self.short = 0
        self.ties: dict[int, bool] = {}
        self.otherwise: dict[int, int] = {}
        self.chances: dict[int, float] = {}
        self.asked: list[list[int]] = []
        self.prompts: list[list[int]] = []

    async def state(self, _: None) -> State:
        self.running_for -= 1
        shown = SelfTestState.RUNNING if self.running_for > 0 else SelfTestState.PASSED
        return cast(State, {**unavailable(""), "selfTest": SelfTest(state=shown).to_wire()})

    async def begin_self_test(self, _: None) -> list[Trial]:
        return self.trials

    async def begin_trial(self, k: int) -> None:
        self.current = k

    async def end_trial(self, result: TrialResult) -> None:
        k, tokens, fault = result["numSpeculativeTokens"], result["tokens"], result["fault"]
        self.ties[k] = result["tied"]
        if k == self.hangs_for_good_at:
            await asyncio.Event().wait()
        assert fault or (k == self.current and len(tokens) == TOKENS)
        if self.dead:
            raise ConnectionError("EngineDeadError")
        self.verdicts[k] = fault

    async def end_self_test(self, fault: str | None) -> None:
        self.closed = fault is None

    async def generate(self, prompt: list[int], tokens: int) -> list[int]:
        if self.hangs or self.current == self.hangs_for_good_at:
            await asyncio.Event().wait()
        if self.current in self.faults:
            self.dead = isinstance(self.faults[self.current], ConnectionError)
            raise self.faults[self.current]
        self.prompts.append(prompt)
        said = prompt[:1] * (tokens - self.short)
        if self.current in self.otherwise and tokens == TOKENS:
            said[4:] = [self.otherwise[self.current]] * (TOKENS - 4)
        return said

    async def likeliest(self, prompt: list[int]) -> dict[int, float]:
        self.asked.append(prompt)
        return self.chances


async def test_every_candidate_gets_one_request() -> None:
    engines = FakeEngines()
    await SelfTestRun(engines, SelfTestJournal(None)).run()
    assert engines.verdicts == dict.fromkeys(CANDIDATES)
    assert engines.closed


async def test_the_prompt_is_what_the_model_itself_says_said_twice() -> None:
    engines = FakeEngines()
    await SelfTestRun(engines, SelfTestJournal(None)).run()
    assert engines.prompts == [PROMPT, *[[PROMPT[0]] * 2 * TEXT_TOKENS] * len(CANDIDATES)]


@pytest.mark.parametrize(
    ("chances", "tied"),
    [
        ({PROMPT[0]: -0.7, 9: -0.75}, True),
        ({PROMPT[0]: -0.7, 9: -0.7 - TIE - 0.01}, False),
        ({PROMPT[0]: -0.1}, False),
        ({}, False),
    ],
    ids=["a tie", "clearly likelier", "not among the likeliest", "nothing is told"],
)
async def test_where_answers_part_a_prefill_says_whether_it_is_a_tie(
    chances: dict[int, float], tied: bool
) -> None:
    engines = FakeEngines()
    engines.otherwise, engines.chances = {2: 9}, chances
    await SelfTestRun(engines, SelfTestJournal(None)).run()
    assert engines.ties == {**dict.fromkeys(CANDIDATES, False), 2: tied}
    assert engines.asked == [[PROMPT[0]] * (2 * TEXT_TOKENS + 4)]
    assert engines.closed


async def test_a_request_that_fails_is_told_and_the_others_go_on() -> None:
    engines = FakeEngines(faults={2: RuntimeError("drafter\nwith a trace")})
    await SelfTestRun(engines, SelfTestJournal(None)).run()
    assert engines.verdicts == {**dict.fromkeys(CANDIDATES), 2: "RuntimeError: drafter"}
    assert engines.closed


async def test_a_request_that_hangs_is_given_up() -> None:
    engines = FakeEngines()
    engines.hangs = True
    await SelfTestRun(engines, SelfTestJournal(None), trial_seconds=0.01).run()
    assert all("no answer within" in str(fault) for fault in engines.verdicts.values())
    assert engines.closed


async def test_a_request_that_ends_early_is_a_failure() -> None:
    engines = FakeEngines()
    engines.short = 4
    await SelfTestRun(engines, SelfTestJournal(None)).run()
    assert engines.verdicts[3] == "the engine gave 6 of 10 tokens"


async def test_a_second_front_end_waits_for_the_first() -> None:
    engines = FakeEngines(trials=False)
    engines.running_for = 3
    await SelfTestRun(engines, SelfTestJournal(None)).run()
    assert engines.running_for == 0
    assert engines.verdicts == {}


async def test_an_engine_that_cannot_be_asked_does_not_keep_the_server_from_starting(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dead(_: None) -> list[Trial]:
        raise ConnectionError("EngineDeadError")

    engines = FakeEngines()
    monkeypatch.setattr(engines, "begin_self_test", dead)
    with caplog.at_level(logging.ERROR):
        await SelfTestRun(engines, SelfTestJournal(None)).run()
    assert "the engine serves without it" in caplog.text


async def test_a_k_that_ended_the_engine_is_not_tried_at_the_next_start(tmp_path: Path) -> None:
    file = tmp_path / "trials.json"
    killed = FakeEngines(faults={2: ConnectionError("EngineDeadError")})
    await SelfTestRun(killed, SelfTestJournal(file)).run()
    assert killed.verdicts == {0: None, 1: None}

    restarted = FakeEngines()
    await SelfTestRun(restarted, SelfTestJournal(file)).run()
    assert "earlier start" in str(restarted.verdicts[2])
    assert [k for k, fault in restarted.verdicts.items() if fault is None] == [0, 1, 3, 5]

    again = FakeEngines()
    await SelfTestRun(again, SelfTestJournal(file)).run()
    assert again.verdicts[2] is not None


async def test_a_core_that_answers_nothing_any_more_ends_the_engine_and_the_next_start_leaves_its_k_out(
    tmp_path: Path,
) -> None:
    file = tmp_path / "trials.json"
    hanging = FakeEngines()
    hanging.hangs_for_good_at = 2
    with pytest.raises(CoreHangs, match="tried K=2: no answer within 0 s, and nothing for 0 s more"):
        await SelfTestRun(hanging, SelfTestJournal(file), trial_seconds=0.01, answer_seconds=0.01).run()

    restarted = FakeEngines()
    await SelfTestRun(restarted, SelfTestJournal(file)).run()
    assert "earlier start" in str(restarted.verdicts[2])
    assert restarted.closed


async def test_a_trial_that_ends_is_not_remembered(tmp_path: Path) -> None:
    file = tmp_path / "trials.json"
    await SelfTestRun(FakeEngines(faults={2: RuntimeError("broke")}), SelfTestJournal(file)).run()
    assert SelfTestJournal(file).unfinished == frozenset()


@pytest.mark.parametrize("content", [b"", b"{", b"7", b'["a"]', b"\xff"])
def test_a_file_that_cannot_be_used_remembers_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "trials.json"
    file.write_bytes(content)
    assert SelfTestJournal(file).unfinished == frozenset()


def test_a_folder_that_is_not_there_costs_the_memory_only(tmp_path: Path) -> None:
    journal = SelfTestJournal(tmp_path / "nowhere" / "trials.json")
    journal.begin(3)
    journal.end()
    assert journal.unfinished == frozenset()
