"""The whole answer of ``outrider plan``: one question in, one forecast out. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from outrider.performance.throughput_table import ThroughputTable
from outrider.sizing.architecture import Architecture
from outrider.sizing.drafters import DraftingModel
from outrider.sizing.gpus import Gpu
from outrider.sizing.memory import Load, Memory, Verdict, memory
from outrider.sizing.proposal import Proposal, candidates_up_to, ceiling_of, proposal
from outrider.sizing.sources import Evidence, Source
from outrider.sizing.speed import (
    EXPERT_LAYER_SECONDS,
    FormulaSpeeds,
    MeasuredSpeeds,
    Speeds,
    best_k,
    dollars_per_million_tokens,
    even_acceptance,
    expected_tokens,
    paying_batches,
    rule_of_thumb,
    speedup,
)
from outrider.sizing.spread import Spread
from outrider.sizing.tasks import PRESETS, Task
from outrider.tuning.policy import Estimation
from outrider_protocol.methods import TRAITS, Method
from outrider_protocol.schedule import Schedule

_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_GPUS = (2, 4, 8, 16)
_OFF_ABOVE = 32
_SHORT_ANSWER = 50
_FEW_ACCEPTED = 2.0
_TIGHT = 0.95
MAX_SHARE = 0.95
"""Ratio of a GPU's memory to propose for an engine; the driver and the peaks of a step need the rest."""


@dataclass(frozen=True)
class Question:
    """What is to be launched, and what for."""

    target: Architecture
    drafter: DraftingModel
    gpu: Gpu
    spread: Spread
    memory_share: float  # of each GPU, that the engine may take
    max_num_seqs: int
    load: Load
    task: Task = Task.CHAT
    acceptance: float | None = None  # of every position; None: that of the task
    answer_tokens: int | None = None  # mean length of an answer; None: unknown
    price_per_hour: float | None = None  # dollars per GPU
    measured: ThroughputTable | None = None
    fixed: Proposal | None = None  # a launch that is already written down; None: make one
    sources: tuple[Source, ...] = ()  # of target and drafter
    warnings: tuple[str, ...] = ()  # what is odd about them


@dataclass(frozen=True, slots=True)
class Expectation:
    """At one number of streams on one replica; tokens per second."""

    streams: int
    without: float
    k: int  # of the static schedule
    with_table: float
    best: int
    with_best: float
    dollars_without: float | None  # per million tokens
    dollars_with: float | None

    @property
    def speedup(self) -> float:
        """Speedup of the static schedule against no drafter."""
        return self.with_table / self.without


@dataclass(frozen=True, slots=True)
class TokensPerStep:
    """What one K yields."""

    k: int
    tokens: float
    speedup: float  # of one stream
    even_acceptance: float | None  # at which one stream is as fast without a drafter; None: none, or unknown


@dataclass(frozen=True)
class Forecast:
    """What to know before a launch."""

    memory: Memory
    enough_share: float | None  # of each GPU's memory, at which it would fit where it does not; None: none
    enough_gpus: int | None  # on which it would fit where it does not; None: it does, or nothing helps
    proposal: Proposal
    acceptance: tuple[float, ...]
    largest_batch: int  # that was looked at
    warnings: tuple[str, ...]
    sources: tuple[Source, ...]
    evidence: Evidence  # of the speeds
    tokens: tuple[TokensPerStep, ...] = ()
    rows: tuple[Expectation, ...] = ()
    paying: tuple[int, int] | None = None  # first and last batch size where drafting pays; None: nowhere
    thumb: float | None = None  # the rule of thumb for one stream with the largest K
    no_speeds: str | None = None  # why none are known; then there are no rows, no tokens and no proposal


def forecast(question: Question) -> Forecast:
    """Everything at once.

    Raises:
        ValueError: the measured table has no column for a K that is needed; the message says which.
    """
    acceptance = PRESETS[question.task].acceptance if question.acceptance is None else (question.acceptance,)
    # On average a request is half way through.
    context = question.load.context / 2
    block = question.fixed.ceiling if question.fixed is not None and question.drafter.drafts_block else 0
    formula = FormulaSpeeds(
        question.target, question.drafter, question.gpu, question.spread, context, acceptance, block
    )
    speeds: Speeds = formula if question.measured is None else MeasuredSpeeds(question.measured)
    evidence = Evidence.FORMULA if question.measured is None else Evidence.MEASURED
    no_speeds = _no_speeds(question)
    if no_speeds is not None:
        chosen = question.fixed or Proposal((0,), Schedule.constant(0), ())
    else:
        chosen = question.fixed or _proposal(question, speeds, evidence)
        _check(question.measured, chosen)
    held = _memory(question, chosen, question.spread)
    too_large = held.verdict is Verdict.TOO_LARGE
    found = Forecast(
        memory=held,
        enough_share=_enough_share(question, held) if too_large else None,
        enough_gpus=_enough_gpus(question, chosen) if too_large else None,
        proposal=chosen,
        acceptance=acceptance,
        largest_batch=question.max_num_seqs,
        warnings=question.warnings,
        sources=(*question.sources, *_sources_of_memory(question)),
        evidence=evidence,
        no_speeds=no_speeds,
    )
    if no_speeds is not None:
        return found
    drafts = question.drafter.method is not Method.NONE
    # Nothing is said of batches that are larger than those that were measured.
    measured = question.max_num_seqs if question.measured is None else question.measured.batch_sizes[-1]
    largest = min(question.max_num_seqs, measured)
    most = largest if held.verdict is Verdict.NOT_KNOWN else min(largest, max(1, held.streams_with_room))
    return replace(
        found,
        tokens=tuple(_tokens(k, acceptance, speeds, formula, question) for k in chosen.candidates if k),
        rows=() if too_large else tuple(_rows(question, speeds, chosen, most)),
        paying=paying_batches(speeds, chosen.candidates, largest) if drafts else None,
        largest_batch=largest,
        thumb=_thumb(formula, chosen.ceiling) if question.measured is None and drafts else None,
        warnings=tuple(_warnings(question, held, acceptance, chosen)),
        sources=(*found.sources, *_sources_of_speeds(question, evidence)),
    )


def _no_speeds(question: Question) -> str | None:
    """Why the formula cannot say how fast it is."""
    if question.measured is not None:
        return None
    if question.target.unknown:
        return "what a step reads is not known"
    if question.drafter.speed_unknown:
        return f"the formula does not have the cost of a {question.drafter.method} draft"
    if question.drafter.unknown is not None:
        return "the drafter is not known"
    if question.drafter.drafts_block and question.fixed is None:
        return "only a manifest says how many tokens the drafter's block has (numSpeculativeTokens)"
    return None


def _memory(question: Question, chosen: Proposal, spread: Spread) -> Memory:
    return memory(
        question.target,
        question.drafter,
        question.gpu.memory_bytes,
        spread=spread,
        share=question.memory_share,
        candidates=chosen.candidates,
        load=question.load,
    )


def _enough_share(question: Question, held: Memory) -> float | None:
    """In hundredths, as people write it; one more than is needed, since graphs and runtime are assumed."""
    wanted = held.before_cache + held.cache_per_request
    least = math.ceil(100 * wanted / question.gpu.memory_bytes)
    most = round(100 * MAX_SHARE)
    return min(least + 1, most) / 100 if least <= most else None


def _enough_gpus(question: Question, chosen: Proposal) -> int | None:
    wider = (question.spread.with_gpus(gpus) for gpus in _GPUS if gpus > question.spread.gpus)
    enough = (
        spread
        for spread in wider
        if spread is not None
        and spread.divides(question.target.heads)
        and _memory(question, chosen, spread).verdict is not Verdict.TOO_LARGE
    )
    found = next(enough, None)
    return None if found is None else found.gpus


def _proposal(question: Question, speeds: Speeds, evidence: Evidence) -> Proposal:
    if question.drafter.method is Method.NONE:
        return Proposal((0,), Schedule.constant(0), ())
    ceiling, why = ceiling_of(question.task, question.target.parameters, question.acceptance)
    if question.measured is None:
        return proposal(speeds, candidates_up_to(ceiling), why_ceiling=why, evidence=evidence)
    why = Source("largest K", Evidence.MEASURED, f"table {question.measured.name} ends there")
    return proposal(speeds, question.measured.candidates, why_ceiling=why, evidence=evidence)


def _check(table: ThroughputTable | None, chosen: Proposal) -> None:
    missing = sorted(set(chosen.candidates) - set(table.candidates)) if table is not None else []
    if table is not None and missing:
        raise ValueError(f"table {table.name} has no column for K={missing[0]}; measure it, or leave it out")


def _tokens(
    k: int, acceptance: tuple[float, ...], speeds: Speeds, formula: FormulaSpeeds, question: Question
) -> TokensPerStep:
    even = None
    if question.measured is None:
        even = even_acceptance(formula.seconds(1, k) / formula.seconds_without(1), k)
    return TokensPerStep(k, expected_tokens(acceptance, k), speedup(speeds, 1, k), even)


def _thumb(formula: FormulaSpeeds, ceiling: int) -> float:
    accepted = expected_tokens(formula.acceptance, ceiling) - 1.0
    return rule_of_thumb(accepted, formula.draft_cost())


def _rows(question: Question, speeds: Speeds, chosen: Proposal, most: int) -> Iterator[Expectation]:
    drafts = question.drafter.method is not Method.NONE
    price = None if question.price_per_hour is None else question.price_per_hour * question.spread.gpus
    for streams in sorted({*(b for b in _BATCHES if b <= most), min(question.load.streams, most)}):
        without = speeds.without(streams)
        k = chosen.schedule.k_at(streams)
        best = best_k(speeds, streams, chosen.candidates)
        table, fastest = (speeds.goodput(streams, x) if drafts else without for x in (k, best))
        costs = [None if price is None else dollars_per_million_tokens(price, x) for x in (without, table)]
        yield Expectation(streams, without, k, table, best, fastest, *costs)


def _warnings(
    question: Question, held: Memory, acceptance: tuple[float, ...], chosen: Proposal
) -> Iterator[str]:
    yield from question.warnings
    if held.verdict in (Verdict.FITS, Verdict.CROWDED) and held.needed > _TIGHT * held.available:
        yield "memory is tight: a drafter takes cache from requests (rule of thumb: better off)"
    if question.drafter.method is Method.NONE:
        return
    if question.load.streams > _OFF_ABOVE:
        yield f"{question.load.streams} streams: the rule of thumb turns speculation off above {_OFF_ABOVE}"
    if question.answer_tokens is not None and question.answer_tokens < _SHORT_ANSWER:
        yield f"answers of {question.answer_tokens} tokens: the rule of thumb is {_SHORT_ANSWER} or more"
    accepted = expected_tokens(acceptance, chosen.ceiling) - 1.0
    if accepted < _FEW_ACCEPTED:
        yield f"{accepted:.1f} accepted tokens per step: the rule of thumb is 2 or more"
    if TRAITS[question.drafter.method].searches_text and question.measured is None:
        yield "n-gram finds nothing in most texts: take these speeds as the most there can be"


def _sources_of_speeds(question: Question, evidence: Evidence) -> Iterator[Source]:
    if question.acceptance is None:
        yield PRESETS[question.task].acceptance_source
    else:
        yield Source("acceptance", Evidence.ASSUMED, "as given, alike for all positions")
    if question.measured is not None:
        table = question.measured
        named = f"table {table.name}, {table.source}" if table.source else f"table {table.name}"
        first, last = table.batch_sizes[0], table.batch_sizes[-1]
        yield Source("speeds", evidence, f"{named}; outside {first} to {last} streams extrapolated")
        return
    yield Source(
        "speeds",
        evidence,
        "memory and arithmetic of the GPU, scaled by a published fit of Llama-3.1-8B on an H100; that it "
        "holds elsewhere is assumed",
    )
    tax = 100 * Estimation().k0_tax
    yield Source(f"K=0 beside a drafter costs {tax:.0f} %", Evidence.ASSUMED, "published: 4 to 25 %")
    if question.target.expert_layers:
        yield Source("experts", Evidence.READ, "tokens of a text share them, as Cohere measured (2026)")
        yield Source(
            f"{1e3 * EXPERT_LAYER_SECONDS:.1f} ms per layer with experts",
            Evidence.ASSUMED,
            "published: 0.04 to 0.65",
        )
    if question.spread.gpus > 1:
        yield Source("several GPUs", Evidence.ASSUMED, "talk to each other in no time: an upper bound")
    if TRAITS[question.drafter.method].searches_text:
        where = "drafts only where the text repeats itself; the acceptance of a trained drafter stands in"
        yield Source("n-gram", Evidence.ASSUMED, where)


def _sources_of_memory(question: Question) -> Iterator[Source]:
    yield Source(f"GPU {question.gpu.name}", Evidence.READ, question.gpu.source)
    yield Source("graphs 0.6 GB + 0.1 GB per K, runtime 1 GB", Evidence.ASSUMED, "per GPU")
