"""The stand-in for a GPU, on real vLLM: what it says, how long it takes, what it refuses, how it breaks."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import httpx
import pytest

from outrider.engine.client import EngineAddress, EngineClient
from outrider.engine.errors import EngineUnreachable
from outrider.engine.state import EngineState
from outrider.runtimes.vllm.runner import TablePlace
from tests.contract import engine_process
from tests.contract.engine import (
    CANDIDATES,
    DRAFT_MODEL,
    KEY,
    MODELS,
    NGRAM,
    POD_UID,
    REQUEST_SECONDS,
    Engine,
    Launch,
    completion_body,
    environment,
    launcher,
    running_engine,
    server_flags,
)
from tests.contract.factories import a_constant, a_push
from tests.contract.last_words import FAULTS, end_of, stored, what_outrider_says
from tests.contract.measuring import run_streams, scrape, settled, sometime
from tests.contract.twin import SIMULATED_NAME, Pace, behave, eagle3, pace, twin_launch

pytestmark = pytest.mark.contract

LARGEST_ERROR = 0.01
"""A measurement that is later than this is void."""
SLOW = 5.0
"""How many times as long steps take where the machine's own lateness is not to matter."""
FIXED, PER_DRAFT = 0.00709274659, 0.00213526175
"""Seconds: of a step of the H100's table, and of each drafted position; the rest is small for one request."""
HANG_SECONDS = 10.0
"""In place of minutes. Engines of these tests have no step of a second."""
END_SECONDS = 180.0
WORDS = "termination-log"
SMALL = {"step_time": {"fixed": 0.002}, "survival": {"some": [0.7, 0.5, 0.3]}, "kv_tokens": 512}


@pytest.fixture(scope="module")
def engine(plugin: Path, twin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An H100 with a draft model."""
    launch = twin_launch(plugin, twin)
    with running_engine(plugin, tmp_path_factory.mktemp("h100"), launch) as engine:
        yield engine


@pytest.fixture(scope="module", params=["V1", "V2"])
def small_engine(
    plugin: Path, twin: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Engine]:
    """With a cache of 512 tokens. V1: with n-grams, which vLLM schedules step by step. V2: as it schedules
    for its newer runner, which GPUs have by default."""
    folder = tmp_path_factory.mktemp("small")
    v2 = request.param == "V2"
    (folder / WORDS).touch()
    launch = twin_launch(
        plugin,
        twin,
        settings={"engine": SMALL},
        speculation=eagle3(folder / "drafter") if v2 else NGRAM,
        flags=("--block-size", "16"),
        table=TablePlace.FLAGS if v2 else TablePlace.PLUGIN,
        VLLM_USE_V2_MODEL_RUNNER=str(int(v2)),
        OUTRIDER_HANG_SECONDS=str(HANG_SECONDS),
        OUTRIDER_TERMINATION_LOG=str(folder / WORDS),
    )
    with running_engine(plugin, folder, launch) as engine:
        assert engine.first_state["runner"] == request.param
        assert pace(engine).asynchronous is v2
        yield engine


def text_of(answer: dict[str, object]) -> str:
    match answer:
        case {"choices": [{"text": str(text)}]}:
            return text
    raise AssertionError(f"no completion: {answer}")


def test_nobody_takes_it_for_an_engine(engine: Engine) -> None:
    assert engine.first_state["simulated"] == "h100_8b"
    assert scrape(engine).total("outrider_twin:simulated", model_name=SIMULATED_NAME) == 1
    with engine.client() as client:
        names = [model["id"] for model in client.get("/v1/models").json()["data"]]
    assert names[0] == SIMULATED_NAME


def test_an_ordinary_engine_says_nothing_of_the_kind(plugin: Path, twin: Path) -> None:
    """The package alone changes nothing: only its variable does."""
    code = "from vllm.platforms import current_platform as p; print(type(p).__name__)"
    found = {
        told: engine_process.run(
            ["-c", code],
            environment(plugin, PYTHONPATH=f"{plugin}:{twin}", OUTRIDER_TWIN=told),
            timeout=400,
        ).log.splitlines()[-1]
        for told in ("", "h100_8b")
    }
    assert found == {"": "CpuPlatform", "h100_8b": "TwinPlatform"}


def test_the_self_test_finds_that_every_k_is_followed(engine: Engine) -> None:
    assert engine.first_state["selfTest"]["state"] == "Passed"  # type: ignore[index]
    assert engine.first_state["liveTuning"] == {"possible": True, "reason": None}
    assert engine.first_state["capturedK"] == list(CANDIDATES)


def test_the_scheduler_is_asynchronous_as_on_a_gpu(engine: Engine) -> None:
    assert pace(engine).asynchronous


def test_a_text_is_the_same_at_every_k(engine: Engine, term: int) -> None:
    texts = set()
    for epoch, k in enumerate(CANDIDATES, start=1):
        engine.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        texts.add(text_of(engine.complete(max_tokens=60)))
    assert len(texts) == 1


def test_the_counters_of_the_plugin_are_those_of_vllm(engine: Engine, term: int) -> None:
    before, generated = scrape(engine), 0
    for epoch, k in enumerate([3, 0, 5, 1], start=1):
        engine.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        generated += run_streams(engine, streams=5, requests=2, max_tokens=40, name=f"k{k}")
    counted = settled(engine, before=before, tokens=generated)
    assert counted.disagreements() == {}
    assert counted.total("outrider:emitted_tokens_total") == generated
    assert counted.total("outrider:draft_tokens_total") > counted.total("outrider:accepted_tokens_total") > 0


@pytest.mark.parametrize("k", CANDIDATES)
def test_a_pushed_k_takes_effect_in_the_time_of_the_next_steps(engine: Engine, term: int, k: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(k))).raise_for_status()
    before, began = scrape(engine), pace(engine)
    engine.complete(max_tokens=40)
    counted, passed = settled(engine, before=before, tokens=40), pace(engine) - began
    assert set(counted.by("outrider:steps_total", "k")) == {str(k)}
    assert passed.scheduled / passed.steps == pytest.approx(FIXED + k * PER_DRAFT, rel=0.03)


def test_a_step_takes_the_time_of_the_table(engine: Engine, term: int) -> None:
    """On the engine's own counter of what it was late. Its steps are slow, so that the machine has time."""
    engine.put(a_push(term=term, schedule=a_constant(3))).raise_for_status()

    def lateness() -> Iterator[float]:
        for attempt in count():
            began = pace(engine)
            run_streams(engine, streams=4, requests=1, max_tokens=60, name=f"t{attempt}")
            yield (pace(engine) - began).late

    behave(engine, time_factor=SLOW)
    try:
        late = sometime(lateness(), lambda late: late <= LARGEST_ERROR, tries=40)
    finally:
        behave(engine, time_factor=1.0)
    print(f"late by {', '.join(f'{one:.4%}' for one in late)}")


def test_the_plugin_s_step_time_is_the_scheduled_one_and_what_was_lost(engine: Engine, term: int) -> None:
    """So the counter of lost time is right, even on a busy machine."""
    engine.put(a_push(term=term, schedule=a_constant(2))).raise_for_status()

    def sums() -> Iterator[tuple[float, Pace]]:
        """Seconds by the plugin, and what the engine says of itself."""
        for attempt in count():
            before, began = scrape(engine), pace(engine)
            tokens = run_streams(engine, streams=4, requests=1, max_tokens=300, name=f"sum{attempt}")
            counted = settled(engine, before=before, tokens=tokens)
            yield counted.total("outrider:step_seconds_total"), pace(engine) - began

    def agree(found: tuple[float, Pace]) -> bool:
        seconds, passed = found
        return seconds == pytest.approx(passed.scheduled + passed.lost, rel=LARGEST_ERROR, abs=0.01)

    print(sometime(sums(), agree))


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"logprobs": 1}, "log-probabilities: not simulated"),
        ({"prompt_logprobs": 1}, "log-probabilities: not simulated"),
        ({"use_beam_search": True, "n": 2}, "log-probabilities: not simulated"),
        ({"structured_outputs": {"choice": ["a", "b"]}}, "structured output: not simulated"),
        ({"response_format": {"type": "json_object"}}, "structured output: not simulated"),
        ({"allowed_token_ids": [5]}, "a choice of tokens"),
        ({"logit_bias": {"5": 1.0}}, "logit_bias"),  # with a drafter vLLM itself refuses it
        ({"bad_words": ["x"]}, "a choice of tokens"),
        ({"vllm_xargs": {"twin_text": "verse"}}, "the class of text 'verse': not simulated"),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_simulated_is_refused(
    engine: Engine, asked: dict[str, object], named: str
) -> None:
    with engine.client() as client:
        answer = client.post("/v1/completions", json=completion_body(5, "x") | asked)
    assert answer.status_code == 400
    assert named in answer.json()["error"]["message"]


def test_an_engine_that_cannot_be_simulated_does_not_start(plugin: Path, twin: Path) -> None:
    launch = twin_launch(plugin, twin, names=("llama-8b",), flags=("--enable-lora",))
    flags = server_flags(target=MODELS / "target", speculation=DRAFT_MODEL, port=1)
    ended = engine_process.run(
        launcher([*flags, *launch.flags]),
        environment(plugin, **launch.variables),
        timeout=400,
        start=engine_process.fork_server,
    )
    assert ended.returncode == 1
    assert 'the served name must say "simulated", and llama-8b does not; LoRA: not simulated' in ended.log


@pytest.mark.parametrize(
    "name", ["out-of-memory-at-the-start", "no-memory-for-the-cache", "core-died", "out-of-memory-stock"]
)
def test_a_fault_ends_an_engine_as_it_did_when_its_end_was_kept(
    plugin: Path, twin: Path, tmp_path: Path, name: str
) -> None:
    """So what the operator's tests read is what engines say."""
    found = end_of(FAULTS[name], plugin, twin, tmp_path)
    assert without_processes(what_outrider_says(found)) == without_processes(what_outrider_says(stored(name)))


def without_processes(said: str) -> str:
    """vLLM names those of its processes that had ended by then: the one that failed is there or not."""
    return re.sub(r"proc\(s\): \{.*?\}", "proc(s): {}", said)


def test_drafts_of_full_length_take_their_time_at_every_k(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(1))).raise_for_status()
    began = behave(engine, faults={"draft_full_length": True})
    engine.complete(max_tokens=30)
    passed = behave(engine, faults={}) - began
    assert passed.scheduled / passed.steps == pytest.approx(FIXED + max(CANDIDATES) * PER_DRAFT, rel=0.03)


def test_an_engine_can_be_made_slower_while_it_runs(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(0))).raise_for_status()
    began = behave(engine, time_factor=2.0)
    engine.complete(max_tokens=20)
    passed = behave(engine, time_factor=1.0) - began
    assert passed.scheduled / passed.steps == pytest.approx(2 * FIXED, rel=0.03)


def test_a_stock_engine_is_a_stand_in_as_well(plugin: Path, twin: Path, tmp_path: Path) -> None:
    """The operator has it load no plugin; then it must not compute instead."""
    launch = twin_launch(plugin, twin, VLLM_PLUGINS="", entry=("-m", "vllm.entrypoints.openai.api_server"))
    with running_engine(plugin, tmp_path, launch) as stock:
        stock.complete(max_tokens=20)
        assert scrape(stock).total("outrider_twin:simulated") == 1
        assert scrape(stock).total("outrider_twin:steps_total") > 0
        with stock.client() as client:
            assert client.get("/outrider/v1/state").status_code == 404


def test_a_core_that_dies_ends_the_container(engine: Engine) -> None:
    """Last of this engine, since it ends it."""
    behave(engine, faults={"die": {}})
    with engine.client() as client, pytest.raises((httpx.TransportError, httpx.HTTPStatusError)):
        client.post("/v1/completions", json=completion_body(5, "x")).raise_for_status()
    engine.process.wait(timeout=180)


def test_the_counters_are_right_for_other_schedulers_as_well(small_engine: Engine) -> None:
    assert small_engine.first_state["selfTest"]["state"] == "Passed"  # type: ignore[index]
    before, generated = scrape(small_engine), 0
    for epoch, k in enumerate([3, 0, 5], start=1):
        small_engine.put(a_push(term=1, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        generated += run_streams(small_engine, streams=2, requests=1, max_tokens=60, name=f"s{k}")
    counted = settled(small_engine, before=before, tokens=generated)
    assert counted.disagreements() == {}
    assert counted.total("outrider:accepted_tokens_total") > 0


def test_a_preempted_request_goes_on_with_its_own_text(small_engine: Engine) -> None:
    prompts = [f"request {n} " * 8 for n in range(6)]
    alone = [text_of(small_engine.complete(max_tokens=120, prompt=prompt)) for prompt in prompts]
    before = scrape(small_engine)
    with small_engine.client() as client:
        body = completion_body(120, "") | {"prompt": prompts}
        answer = client.post("/v1/completions", json=body).raise_for_status().json()
    counted = settled(small_engine, before=before, tokens=120 * len(prompts))
    assert counted.total("vllm:num_preemptions_total") > 0
    # The plugin counts what is computed again, vLLM's counter of prompts does not.
    assert set(counted.disagreements()) == {"outrider:prefill_tokens_total"}
    assert [choice["text"] for choice in answer["choices"]] == alone


def test_a_core_that_hangs_answers_nobody_and_fails_its_health(small_engine: Engine) -> None:
    """So the liveness probe restarts it. Last of these engines, since nothing wakes it up."""
    behave(small_engine, faults={"hang": {}})
    usual = httpx.Client(base_url=small_engine.url, timeout=REQUEST_SECONDS, trust_env=False)
    with ThreadPoolExecutor(1) as pool, usual as client:
        assert client.get("/health").status_code == 200
        request = pool.submit(client.post, "/v1/completions", json=completion_body(5, "x"), timeout=2)
        with pytest.raises(httpx.ReadTimeout):
            request.result()
        with pytest.raises(EngineUnreachable, match="timeout"):
            asyncio.run(_state(small_engine))
        health = failing_health(client)
        exported = client.get("/metrics").text
        small_engine.process.terminate()
        small_engine.process.wait(timeout=END_SECONDS)
    assert health.status_code == 503
    assert "the engine core hangs: no answer for" in health.text
    assert "vllm:generation_tokens_total" in exported
    assert "outrider:core_silent_seconds" in exported
    assert "outrider:steps_total" not in exported
    (words,) = small_engine.log_file.parent.glob(WORDS)
    assert words.read_text().startswith("the engine core hangs: no answer for")


def failing_health(client: httpx.Client) -> httpx.Response:
    """The first answer without success."""
    deadline = time.monotonic() + END_SECONDS
    while (health := client.get("/health")).is_success:
        assert time.monotonic() < deadline, "it passes for healthy"
        time.sleep(0.2)
    return health


async def _state(engine: Engine) -> EngineState:
    """As the operator asks for it."""
    client = EngineClient(timeout_seconds=2)
    try:
        return await client.state(EngineAddress(engine.url, POD_UID, KEY))
    finally:
        await client.aclose()


def test_a_slow_start_takes_so_much_longer(plugin: Path, twin: Path, tmp_path: Path) -> None:
    """The pod has its address and does not listen; the operator pushes once it does."""
    launch = twin_launch(plugin, twin, settings={"engine": "h100_8b", "faults": {"start_seconds": 12}})
    began = time.monotonic()
    with running_engine(plugin, tmp_path, launch) as engine:
        assert time.monotonic() - began > 12
        assert engine.first_state["selfTest"]["state"] == "Passed"  # type: ignore[index]


def test_a_k_that_crashes_ends_the_first_start_and_is_refused_by_the_next(
    plugin: Path, twin: Path, tmp_path: Path
) -> None:
    settings = {"engine": "h100_8b", "faults": {"crash": {"k": 5}}}
    attempts = str(tmp_path / "self-test.json")
    launch: Launch = twin_launch(plugin, twin, settings=settings, OUTRIDER_SELF_TEST_FILE=attempts)
    with pytest.raises(AssertionError, match="the engine ended"), running_engine(plugin, tmp_path, launch):
        pass
    with running_engine(plugin, tmp_path, launch) as engine:
        assert engine.first_state["selfTest"]["failedK"] == [5]  # type: ignore[index]
        assert engine.put(a_push(term=1, schedule=a_constant(5))).status_code >= 400
        engine.put(a_push(term=1, schedule=a_constant(3))).raise_for_status()
        engine.complete(max_tokens=20)
