"""Requests to the control API, good and bad mixed, on a busy engine, and what each must answer.

A model of the contract says what each must answer. Meanwhile another client reads the state: it must
always be that of one push, whole.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.engine.signing import SigningKey
from tests.contract.engine import CANDIDATES, KEY, MAX_NUM_SEQS, POD_UID, Engine
from tests.contract.factories import Rows, a_push
from tests.contract.load import WHOLE, busy
from tests.contract.signed import Signed

SMALLEST_BATCH, MAX_BATCH = 40, 44
STREAMS = 3
SCHEDULE = "/outrider/v1/schedule"

InForce = tuple[int, int, str]
"""Term, epoch and the table as JSON."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a random sequence, relative to what was accepted before it."""

    kind: str
    table: Rows
    lease_seconds: float
    ahead: int
    garbage: bytes


@dataclass
class Model:
    """A second form of the contract: what was accepted, and what a request must answer."""

    term: int
    epoch: int = 0
    table: Rows = field(default_factory=list)
    accepted: list[InForce] = field(default_factory=list)
    """Every table that was sent to be accepted, in order."""
    confirmed: int = 0
    """Number of those whose answer has come."""
    answers: dict[str, int] = field(default_factory=dict)

    @property
    def last(self) -> dict[str, object]:
        return a_push(term=self.term, epoch=self.epoch, schedule=self.table)


def tables(values: st.SearchStrategy[int]) -> st.SearchStrategy[Rows]:
    """Tables of up to five rows, each K from ``values``."""
    bounds = st.lists(st.integers(1, MAX_NUM_SEQS + 4), max_size=4, unique=True).map(sorted)
    return bounds.flatmap(
        lambda limits: st.lists(values, min_size=len(limits) + 1, max_size=len(limits) + 1).map(
            lambda ks: [
                *(
                    {"maxBatchSize": limit, "numSpeculativeTokens": k}
                    for limit, k in zip(limits, ks, strict=False)
                ),
                {"numSpeculativeTokens": ks[-1]},
            ]
        )
    )


KINDS = (
    "new table",
    "renewal",
    "older epoch",
    "older term",
    "another table, same epoch",
    "not captured",
    "malformed",
    "garbage",
    "oversized",
    "wrong signature",
)
steps = st.builds(
    Step,
    kind=st.sampled_from((*KINDS, *["new table"] * 5)),
    table=tables(st.sampled_from(CANDIDATES)),
    lease_seconds=st.floats(120, 3600),
    ahead=st.integers(1, 1000),
    garbage=st.binary(max_size=200),
)


def expected_and_request(step: Step, model: Model) -> tuple[str, dict[str, object] | bytes]:
    """The answer that the contract demands, and the body."""
    push = a_push(
        term=model.term, epoch=model.epoch + step.ahead, schedule=step.table, lease_seconds=step.lease_seconds
    )
    renewed = model.last | {"leaseSeconds": step.lease_seconds}
    match step.kind:
        case "new table" | "wrong signature":
            return ("200" if step.kind == "new table" else "401 Unauthorized"), push
        case "renewal":
            return "200", renewed
        case "older epoch":
            return "409 StaleEpoch", push | {"epoch": max(0, model.epoch - step.ahead)}
        case "older term":
            return "409 StaleEpoch", push | {"term": model.term - 1}
        case "another table, same epoch":
            if dense(step.table) == dense(model.table):
                return "200", renewed
            return "409 StaleEpoch", push | {"epoch": model.epoch}
        case "not captured":
            return "422 NotCaptured", push | {"schedule": [{"numSpeculativeTokens": 4}]}
        case "malformed":
            return "422 Malformed", malformed(push, step.ahead)
        case "garbage":
            return "422 Malformed", b"\xff" + step.garbage
        case _:
            return "413 TooLarge", b" " * 70_000


def malformed(push: dict[str, object], number: int) -> dict[str, object]:
    """A push with one thing wrong."""
    faults: list[dict[str, object]] = [
        {"term": "1"},
        {"epoch": -1},
        {"epoch": 1.5},
        {"term": 2**60},
        {"schedule": []},
        {"schedule": [{"maxBatchSize": 3, "numSpeculativeTokens": 1}]},
        {"schedule": [{"numSpeculativeTokens": True}]},
        {"schedule": [{"maxBatchSize": 2, "numSpeculativeTokens": 1}] * 2 + [{"numSpeculativeTokens": 1}]},
        {"leaseSeconds": 0},
        {"leaseSeconds": 1e9},
        {"leaseSeconds": None},
        {"unknown": 1},
    ]
    return push | faults[number % len(faults)]


def dense(table: Rows) -> list[int]:
    return [
        next(row["numSpeculativeTokens"] for row in table if size <= row.get("maxBatchSize", size))
        for size in range(1, MAX_NUM_SEQS + 1)
    ]


def send(client: httpx.Client, step: Step, model: Model) -> None:
    expected, body = expected_and_request(step, model)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    if step.kind == "new table" and isinstance(body, dict):
        model.epoch, model.table = model.epoch + step.ahead, step.table
        model.accepted.append(in_force(body))
    key = SigningKey.generate() if step.kind == "wrong signature" else KEY
    answer = client.put(SCHEDULE, content=content, auth=Signed(key, POD_UID))
    assert told(answer) == expected, f"{step.kind}: {content[:300]!r}"
    if answer.is_success:
        assert in_force(answer.json()) == model.accepted[-1]
    model.confirmed = len(model.accepted)
    model.answers[expected] = model.answers.get(expected, 0) + 1


def told(answer: httpx.Response) -> str:
    return "200" if answer.is_success else f"{answer.status_code} {answer.json()['error']['reason']}"


def in_force(state: dict[str, object]) -> InForce:
    match state:
        case {"term": int(term), "epoch": int(epoch), "schedule": schedule}:
            return term, epoch, json.dumps(schedule, sort_keys=True)
    raise AssertionError(f"no state: {state}")


@contextmanager
def watched(engine: Engine, model: Model) -> Iterator[list[int]]:
    """Read the state all the time. It may be behind or ahead of a push on its way, and nothing else."""
    stop, reads = threading.Event(), list[int]()

    def watch() -> None:
        with engine.client() as client:
            while not stop.is_set():
                oldest = max(0, model.confirmed - 1)
                state = in_force(client.get("/outrider/v1/state").json())
                allowed = model.accepted[oldest : len(model.accepted)]
                assert state in allowed, f"{state} is none of {allowed}"
                reads.append(1)
                stop.wait(0.2)

    with ThreadPoolExecutor(1) as pool:
        watching: Future[None] = pool.submit(watch)
        try:
            yield reads
        finally:
            stop.set()
    watching.result()


def assert_every_answer_is_the_contracts(engine: Engine, term: int, *, batches: int) -> None:
    """Under load, whose requests end as they would alone. The engine has `CANDIDATES`."""
    model = Model(term)
    with engine.client() as client:
        send(client, Step("new table", [{"numSpeculativeTokens": 1}], 300, 1, b""), model)

        @settings(
            max_examples=batches,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(st.lists(steps, min_size=SMALLEST_BATCH, max_size=MAX_BATCH))
        def random_requests(batch: list[Step]) -> None:
            for step in batch:
                send(client, step, model)

        with busy(engine, streams=STREAMS) as ends, watched(engine, model) as reads:
            random_requests()
        assert in_force(client.get("/outrider/v1/state").json()) == model.accepted[-1]
    print(f"{model.answers}, {len(ends)} requests, {len(reads)} reads of the state")
    assert set(ends) == {WHOLE}
    assert len(ends) > STREAMS
    assert len(reads) > 10
    assert sum(model.answers.values()) >= SMALLEST_BATCH * batches
    assert {answer.partition(" ")[2] for answer in model.answers} == {
        "",
        "StaleEpoch",
        "NotCaptured",
        "Malformed",
        "TooLarge",
        "Unauthorized",
    }
