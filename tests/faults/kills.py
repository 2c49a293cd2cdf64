"""A whole life of a model, and what it is like when the operator is killed at a call of each step."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from tests.faults.faults import Call, Effect, Fault
from tests.faults.life import REPLICAS, SETTINGS, Life, NotSettled, Wanted, a_life
from tests.faults.oracles import Picture, complaints, orphans
from tests.faults.place import Place


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a user does. wanted: what comes of it; None where there is no model afterwards."""

    name: str
    act: Callable[[Life], None]
    wanted: Wanted | None


_TUNED = Wanted(k=3)
_LAST = replace(_TUNED, scratch="96")
WHOLE_LIFE = (
    Step("start", Life.restart, None),
    Step("create", Life.create, Wanted()),
    Step("retune", lambda life: life.override(3), _TUNED),
    Step("relaunch", lambda life: life.order("no-drafter"), Wanted(k=None, launch="no-drafter")),
    Step("relaunch back", lambda life: life.change(_tuning(structuralOff="Never", canary="Never")), _TUNED),
    Step("allow a canary", lambda life: life.change(_tuning(canary="Allow")), _TUNED),
    Step("canary", lambda life: life.order("", canary=True), replace(_TUNED, canary=True)),
    Step("end the canary", lambda life: life.order(""), _TUNED),
    Step("roll out", lambda life: life.change({"engine": {"args": {"max-num-seqs": 96}}}), _LAST),
    Step("scale", lambda life: life.change({"replicas": 3}), replace(_LAST, replicas=3)),
    Step("delete", Life.delete, None),
)


def _tuning(**fields: str) -> dict[str, object]:
    return {"speculation": {"tuning": fields}}


@dataclass(frozen=True, slots=True)
class Point:
    """One occurrence of a call in a step. of_engines: it goes to an engine. ordinal: from 0."""

    step: str
    call: Call
    ordinal: int
    of_engines: bool = False

    def __str__(self) -> str:
        """``roll out: PATCH deployments/m #2``."""
        return f"{self.step}: {self.call} #{self.ordinal + 1}"


@dataclass(frozen=True, slots=True)
class Kill:
    """The operator is killed at a point."""

    effect: Effect
    point: Point

    def __str__(self) -> str:
        """``killed before roll out: PATCH deployments/m #2``."""
        return f"killed {'before' if self.effect is Effect.KILL_BEFORE else 'after'} {self.point}"


@dataclass(slots=True)
class Course:
    """How a life went. pictures: by step. problems: what an oracle found. struck: kills that took place."""

    pictures: dict[str, Picture] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    struck: set[Kill] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Under:
    """What a life is under.

    kills: at most one in each step. of_engines: faults before the engines; the others are before the API
    server. settings: of the operator.
    """

    kills: tuple[Kill, ...] = ()
    faults: tuple[Fault, ...] = ()
    of_engines: tuple[Fault, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


def live(place: Place, namespace: str, under: Under = Under(), reference: Course | None = None) -> Course:
    """A whole life. reference: the one without faults, with which it is compared."""
    course = Course()
    with a_life(place, namespace, {**SETTINGS, **under.settings}) as life, ExitStack() as faults:
        faults.enter_context(life.gate.under(*under.faults))
        faults.enter_context(life.engines.under(*under.of_engines))
        for step in WHOLE_LIFE:
            try:
                with _killed_in(life, step, under.kills, course):
                    take(life, step, course, reference)
            except NotSettled as error:
                course.problems.append(f"{step.name}: {error}")
                break
        course.problems += _at_the_end(life)
    return course


def live_until(life: Life, last: str, reference: Course | None = None) -> None:
    """The steps of a whole life up to this one, each compared with the reference."""
    for step in WHOLE_LIFE:
        take(life, step, Course(), reference)
        life.wanted = step.wanted or life.wanted
        if step.name == last:
            return


@contextmanager
def _killed_in(life: Life, step: Step, kills: Sequence[Kill], course: Course) -> Iterator[None]:
    kill = next((each for each in kills if each.point.step == step.name), None)
    if kill is None:
        yield
        return
    gate = life.engines if kill.point.of_engines else life.gate
    with gate.under(Fault.at(kill.effect, kill.point.call, after=kill.point.ordinal)) as [armed]:
        try:
            yield
        finally:
            if armed.struck:
                course.struck.add(kill)


def take(life: Life, step: Step, course: Course, reference: Course | None) -> None:
    """One step of a life, until it has come to rest like the reference.

    Raises:
        NotSettled: it does not.
    """
    calls, asked = len(life.gate.calls), len(life.engines.calls)
    if step.name == "delete":
        life.client.end()
    step.act(life)
    if step.wanted is not None:
        life.settle(step.wanted)
        if reference is None:
            course.pictures[step.name] = life.picture()
        else:
            life.must_be_like(reference.pictures[step.name])
        course.problems += [f"{step.name}: {each}" for each in _unserved(life)]
    elif step.name == "delete":
        life.until(lambda: ", ".join(orphans(life.objects())))
        life.until(life.unrest)
    else:
        life.until(lambda: "" if "leading, term" in life.operator.log else "a leader")
        life.until(lambda: life.unrest(reads=True))
    if step.name == "create":
        life.history.count_from_here()
        life.client.begin()
    course.points += points(step.name, [seen.call for seen in life.gate.calls[calls:]])
    course.points += points(step.name, [seen.call for seen in life.engines.calls[asked:]], of_engines=True)


def _unserved(life: Life) -> list[str]:
    fewest = life.history.fewest
    if fewest is not None and fewest < REPLICAS:
        return [f"{fewest} pods were ready, and never less than {REPLICAS} should be"]
    return []


def _at_the_end(life: Life) -> list[str]:
    problems = complaints(life.operator.log)
    lapsed, refused = life.history.troubles()
    if refused:
        problems.append(f"engines refused pushes as older than what they had: {'; '.join(refused)}")
    if lapsed:
        problems.append(f"{lapsed} leases of schedules ended")
    if life.client.failed:
        failed = Counter(life.client.failed)
        problems.append(f"requests of clients failed, beside {life.client.answered} answers: {dict(failed)}")
    return problems


def points(step: str, calls: Sequence[Call], *, of_engines: bool = False) -> list[Point]:
    """Where a kill may differ: at each write, and at the first of equal reads.

    Equal reads of one step find the same objects, unless a write lies between, which is a point itself. The
    renewals of the Lease, watches, and the repeated questions to engines are left out.
    """
    met: Counter[Call] = Counter()
    found = []
    for call in calls:
        ordinal = met[call]
        met[call] += 1
        repeated = of_engines or not call.writes or call.plural == "leases"
        if not call.watch and not (repeated and ordinal):
            found.append(Point(step, call, ordinal, of_engines))
    return found


def table(points_of_life: Sequence[Point]) -> list[Kill]:
    """Every kill of a life: before and after each point."""
    effects = (Effect.KILL_BEFORE, Effect.KILL_AFTER)
    return [Kill(effect, point) for point in points_of_life for effect in effects]


def lives(kills: Iterable[Kill]) -> list[tuple[Kill, ...]]:
    """The kills, at most one of each step in a life: as many lives as the longest step has kills."""
    by_step: dict[str, list[Kill]] = {}
    for kill in kills:
        by_step.setdefault(kill.point.step, []).append(kill)
    rows = itertools.zip_longest(*by_step.values())
    return [tuple(kill for kill in row if kill is not None) for row in rows]
