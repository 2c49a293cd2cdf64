"""The result of a verification, as text for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from pydantic import JsonValue

from outrider.verify.greedy import Comparison, Difference, has_defect
from outrider.verify.sampling import LEVEL, SHIFT, PositionTest, Same, differs
from outrider.verify.structured import TOKENS, Structured

_SHOWN = 5


class Verdict(StrEnum):
    """The verdict on speculation."""

    LOSSLESS = "Lossless"
    """No change of answers was found."""
    DEFECT = "Defect"
    """It changes greedy answers beyond ties."""
    BROKEN = "Broken"
    """It breaks the form of answers in JSON or of tool calls."""
    SHIFTED = "Shifted"
    """Sampled answers come from another distribution."""
    UNDECIDED = "Undecided"
    """Greedy answers differ beyond ties without drafts already."""


_WORDS = {
    Verdict.LOSSLESS: "lossless: no change of answers was found",
    Verdict.DEFECT: "speculation changes greedy answers beyond ties; keep K=0 and report it",
    Verdict.BROKEN: "answers lose their form with drafts only; keep K=0 and report it",
    Verdict.SHIFTED: f"sampled answers come from another distribution, at a level of {LEVEL:g}",
    Verdict.UNDECIDED: "undecided: greedy answers differ beyond ties without drafts, too",
}


@dataclass(frozen=True, slots=True)
class Result:
    """All comparisons.

    again: K=0 against K=0, which shows how far the engine differs from itself. Empty where nothing differs
    beyond ties with drafts: there is nothing to explain.
    """

    namespace: str
    name: str
    k: int
    tokens: int  # of an answer at most
    tie: float  # nats
    greedy: Sequence[Difference]  # by prompt
    again: Sequence[Difference]
    sampled: Sequence[PositionTest | Same]
    structured: Sequence[Structured] = ()
    ended: str | None = None  # why it ended before all answers were compared

    @property
    def verdict(self) -> Verdict:
        """The verdict; a defect in greedy answers comes before a test of distributions."""
        greedy = [(has_defect(self.greedy), has_defect(self.again))]
        greedy += [(each.differs, each.differs_from_itself) for each in self.structured]
        if any(differ and not from_itself for differ, from_itself in greedy):
            return Verdict.DEFECT
        if any(each.broken_by_drafts for each in self.structured):
            return Verdict.BROKEN
        if any(differ for differ, _ in greedy):
            return Verdict.UNDECIDED
        return Verdict.SHIFTED if differs(self.sampled) else Verdict.LOSSLESS


def text_of(result: Result) -> Iterator[str]:
    """Lines for people."""
    yield f"{result.namespace}/{result.name}: K={result.k} against K=0, {len(result.greedy)} greedy answers"
    yield f"  K={result.k} and K=0: {_counts(result.greedy)}"
    yield from _itself(result.again)
    yield from _places("prompt", result.greedy)
    for found in result.structured:
        yield from _structured(found, result.k)
    if result.sampled:
        yield f"Sampled answers at temperature 1, {result.sampled[0].samples} of each, chi-square by position"
        yield from (f"  token {each.position}: {_in_words(each)}" for each in result.sampled)
    if result.ended is not None:
        yield f"Ended early, so the other answers were not compared: {result.ended}"
    yield f"Verdict: {_WORDS[result.verdict]}"


def _places(what: str, found: Sequence[Difference]) -> Iterator[str]:
    """Where the first answers part beyond ties. what: the word for a question."""
    defects = [(at, each) for at, each in enumerate(found, 1) if each.comparison is Comparison.DEFECT]
    for at, each in defects[:_SHOWN]:
        place = 0 if each.position is None else each.position + 1
        apart = "one of them unlikely" if each.gap is None else f"{each.gap:.2f} nats apart"
        yield f"  {what} {at}, token {place}: {each.plain!r} or {each.speculated!r}, {apart}"


def _itself(again: Sequence[Difference]) -> Iterator[str]:
    if again:
        yield f"  K=0 and K=0: {_counts(again)}, the engine against itself"


def _structured(found: Structured, k: int) -> Iterator[str]:
    if found.omitted is not None:
        yield f"{found.form.capitalised}: not asked, because {found.omitted}"
        return
    yield f"{found.form.capitalised}: {len(found.greedy)} greedy answers"
    yield f"  K={k} and K=0: {_counts(found.greedy)}"
    yield from _itself(found.again)
    yield from _places("question", found.greedy)
    faults = [sum(each is not None for each in faults) for faults in (found.faults, found.plain_faults)]
    cut = f"; {found.cut} were cut at {TOKENS} tokens, so their form is unknown" if found.cut else ""
    yield f"  without their form: {faults[0]} with K={k}, {faults[1]} with K=0{cut}"
    for at, fault in found.broken_by_drafts[:_SHOWN]:
        yield f"  question {at}, with drafts only: {fault}"


def _counts(found: Sequence[Difference]) -> str:
    counts = Counter(each.comparison for each in found)
    words = ((Comparison.EQUAL, "equal"), (Comparison.TIE, "part at a tie"), (Comparison.DEFECT, "differ"))
    return ", ".join(f"{counts[kind]} {word}" for kind, word in words)


def _in_words(found: PositionTest | Same) -> str:
    if isinstance(found, Same):
        return "always the same token, so there is nothing to test"
    seen = f"would see a shift of {SHIFT:.0%} with probability {found.power:.2f}"
    return f"p = {found.p:.3f} over {found.bins} tokens; {seen}"


def json_of(result: Result) -> dict[str, JsonValue]:
    """The same for programs, with every prompt. Gaps in nats."""
    sampled: list[JsonValue] = [asdict(each) for each in result.sampled]
    structured: list[JsonValue] = [asdict(each) for each in result.structured]
    return {
        "namespace": result.namespace,
        "name": result.name,
        "k": result.k,
        "ended": result.ended,
        "verdict": result.verdict,
        "tie": result.tie,
        "greedy": [asdict(each) for each in result.greedy],
        "again": [asdict(each) for each in result.again],
        "structured": structured,
        "sampled": sampled,
    }
