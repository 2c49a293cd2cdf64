"""Random faults and random changes for a long time, and what the operator's process takes meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from tests.faults.faults import Effect, Fault
from tests.faults.life import Life, NotSettled, Wanted
from tests.faults.pods import ENGINE

ROUND_SECONDS = 15.0
"""Of faults, before they are lifted and the process is measured."""
_STATUSES = (409, 410, 429, 500, 503, 504)
_MORE = {"memory": 1.10, "files": 1.0, "sockets": 1.0, "threads": 1.0, "tasks": 1.0}
"""Ratio of the end to the beginning that counts as flat."""
_SLACK = {"memory": 8.0, "files": 12.0, "sockets": 12.0, "threads": 4.0, "tasks": 12.0}
"""What the end may have above that ratio: pools of connections and of threads fill when they are used."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the process takes when it rests. memory: resident, MiB. tasks: of its main event loop."""

    memory: float
    files: int
    sockets: int
    threads: int
    tasks: int


def sample(pid: int, tasks: Path) -> Sample:
    """By the kernel. tasks: file to which the process writes the number of its tasks."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    targets = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            targets.append(str(file.readlink()))
        except FileNotFoundError:
            continue  # it was closed meanwhile
    return Sample(
        memory=int(status["VmRSS"].split()[0]) / 1024,
        files=len(targets),
        sockets=sum(target.startswith("socket:") for target in targets),
        threads=int(status["Threads"]),
        tasks=int(tasks.read_text().split()[-1]),
    )


def growth(samples: Sequence[Sample]) -> list[str]:
    """What grew from the second quarter of the samples to the last one. Pure."""
    quarter = max(1, len(samples) // 4)
    problems = []
    for name, ratio in _MORE.items():
        values = [asdict(each)[name] for each in samples]
        early, late = median(values[quarter : 2 * quarter] or values), median(values[-quarter:])
        if late > early * ratio + _SLACK[name]:
            problems.append(f"{name} grew from {early:g} to {late:g}")
    return problems


def faults(chance: random.Random) -> list[Fault]:
    """Some faults of the API server."""
    makers: tuple[Callable[[], Fault], ...] = (
        lambda: Fault(Effect.STATUS, watch=None, every=chance.randint(2, 5), status=chance.choice(_STATUSES)),
        lambda: Fault(Effect.LOSE_REPLY, every=chance.randint(2, 5)),
        lambda: Fault(Effect.CUT, watch=None, every=chance.randint(2, 5)),
        lambda: Fault(Effect.TRUNCATE, every=chance.randint(2, 5)),
        lambda: Fault(Effect.GARBAGE, every=chance.randint(2, 5)),
        lambda: Fault(Effect.DELAY, every=chance.randint(1, 3), seconds=chance.uniform(0.05, 2.0)),
        lambda: Fault(Effect.FREEZE, every=chance.randint(3, 9)),
        lambda: Fault(Effect.ERROR_EVENT, watch=True, every=5, status=chance.choice(_STATUSES)),
        lambda: Fault(Effect.DROP_EVENT, watch=True, every=chance.randint(2, 4)),
        lambda: Fault(Effect.DUPLICATE_EVENT, watch=True),
        lambda: Fault(Effect.SWAP_EVENTS, watch=True, every=2),
    )
    return [make() for make in chance.sample(makers, chance.randint(1, 3))]


def faults_of_engines(chance: random.Random) -> list[Fault]:
    """Sometimes one fault of the engines."""
    effects = (Effect.STATUS, Effect.CUT, Effect.GARBAGE, Effect.DELAY, Effect.FREEZE)
    return [
        Fault(chance.choice(effects), plural=ENGINE, every=chance.randint(1, 4), seconds=1.0)
        for _ in range(chance.randint(0, 1))
    ]


def changes(chance: random.Random, life: Life, wanted: Wanted) -> Wanted:
    """One change by a user. wanted: before it. Returns what is wanted now."""
    match chance.randint(0, 2):
        case 0:
            k = chance.choice((1, 3, 5))
            life.override(k)
            return Wanted(wanted.replicas, k, scratch=wanted.scratch)
        case 1:
            replicas = chance.randint(2, 4)
            life.change({"replicas": replicas})
            return Wanted(replicas, wanted.k, scratch=wanted.scratch)
        case _:
            seqs = chance.choice((96, 104, 112, 120))
            life.change({"engine": {"args": {"max-num-seqs": seqs}}})
            return Wanted(wanted.replicas, wanted.k, scratch=str(seqs))


@dataclass(slots=True)
class Soaked:
    """samples: one for each round. problems: rounds that did not settle, and what grew."""

    samples: list[Sample]
    problems: list[str]


def soak(life: Life, tasks: Path, *, seconds: float, seed: int) -> Soaked:
    """Rounds of faults until the time is over. The operator runs, and the model is as `life.wanted`."""
    chance, began, wanted = random.Random(seed), time.monotonic(), life.wanted
    found = Soaked([], [])
    while time.monotonic() - began < seconds:
        plan, of_engines = faults(chance), faults_of_engines(chance)
        with life.gate.under(*plan), life.engines.under(*of_engines):
            wanted = changes(chance, life, wanted)
            life.wait(ROUND_SECONDS)
        try:
            life.settle(wanted, seconds=120)
        except NotSettled as error:
            found.problems.append(f"after {[str(each.effect) for each in (*plan, *of_engines)]}: {error}")
        found.samples.append(sample(life.operator.pid, tasks))
        print(f"{time.monotonic() - began:5.0f} s: {found.samples[-1]}", flush=True)
    found.problems += growth(found.samples)
    return found
