"""Pods that live on a step-time formula, under closed load, with an acceptance trace per request.

A trace says for every draft of a request how many of its tokens would be accepted in a row, were
the draft long enough. With K drafted tokens min(that, K) are. So every K meets the same text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from outrider.performance.step_time import StepTime
from outrider_lab.engines.closed_load import ClosedLoadFleet, Piece
from outrider_lab.engines.fast_loops import InEngine
from outrider_lab.engines.fleet import Span, noise_factor
from outrider_lab.engines.windows import Stretch

TRACE_DRAFTS = 4096
"""Drafts after which a trace begins again."""
CONCENTRATION = 20.0
"""Concentration of the beta distribution of acceptance over requests; a larger one means less spread.
The standard deviation at a mean of 0.7 is 0.1."""

Runs = NDArray[np.int64]


@dataclass(frozen=True)
class FormulaPhase:
    """Constant load on each pod."""

    load: int  # streams per pod
    seconds: float
    acceptance: tuple[float, ...]  # of position j, given that all before it were accepted
    context: float = 1000.0  # mean tokens in the cache per request
    second: tuple[float, ...] | None = None  # acceptance of every second stream, where there are two classes


def acceptance_traces(
    acceptance: Sequence[float], streams: int, rng: np.random.Generator, drafts: int = TRACE_DRAFTS
) -> Runs:
    """Accepted tokens in a row, one row per request, one column per draft.

    Requests differ: each position's probability is drawn once per request from a beta
    distribution around `acceptance`, with the same quantile for all positions.
    """
    level = np.sort(rng.beta(CONCENTRATION / 2, CONCENTRATION / 2, size=streams)) - 0.5
    rng.shuffle(level)
    probabilities = np.clip(np.asarray(acceptance)[None, :] + level[:, None], 0.01, 0.99)
    hits = rng.random((streams, drafts, len(acceptance))) < probabilities[:, None, :]
    runs: Runs = np.cumprod(hits, axis=2).sum(axis=2)
    return runs


def _traces(phase: FormulaPhase, rng: np.random.Generator) -> Runs:
    if phase.second is None:
        return acceptance_traces(phase.acceptance, phase.load, rng)
    others = phase.load // 2
    first = acceptance_traces(phase.acceptance, phase.load - others, rng)
    return np.concatenate([first, acceptance_traces(phase.second, others, rng)]) if others else first


@lru_cache(maxsize=1)
def _traces_of(
    phases: tuple[FormulaPhase, ...], pods: tuple[str, ...], seed: int
) -> Mapping[tuple[str, int], Runs]:
    """By pod and phase; kept, since every policy meets the same text."""
    text = np.random.default_rng(seed)
    return {(pod, index): _traces(phase, text) for pod in pods for index, phase in enumerate(phases)}


class FormulaFleet(ClosedLoadFleet):
    """See `Fleet`. Noise is that of `TableFleet`; acceptance comes from the traces alone."""

    def __init__(
        self,
        step: StepTime,
        phases: Sequence[FormulaPhase],
        *,
        edges: Sequence[int],
        rng: np.random.Generator,
        traces_seed: int = 0,
        noise: float = 0.05,
        speeds: Sequence[float] = (1.0,),
    ) -> None:
        lengths, loads = [p.seconds for p in phases], [p.load for p in phases]
        super().__init__(lengths, loads, edges=edges, rng=rng, noise=noise, speeds=speeds)
        self._step, self._phases = step, phases
        self._traces = _traces_of(tuple(phases), tuple(self._speeds), traces_seed)
        self._places = dict.fromkeys(self._traces, 0)
        self._counts: dict[tuple[str, int], list[list[int]]] = {}

    def _work(
        self, pod: str, pieces: Sequence[Piece], loop: InEngine | None
    ) -> tuple[list[Span], list[Stretch]]:
        spans, truth = list[Span](), list[Stretch]()
        for piece in pieces:
            held = loop is None or piece.probed
            done = [self._steps(pod, piece)] if held else self._free(pod, piece)
            truth += done
            seconds, tokens = sum(s.seconds for s in done), sum(s.emitted for s in done)
            batch = float(self._phases[piece.phase].load)
            spans.append(Span(pod, piece.started_at, piece.seconds, seconds, tokens, batch, piece.off_table))
        return spans, self._noisy(truth)

    def _free(self, pod: str, piece: Piece) -> list[Stretch]:
        """Steps that fill a piece, each with the K that the fast loop chooses; one stretch for each K."""
        phase, key = self._phases[piece.phase], (pod, piece.phase)
        counts, place = self._counted(key), self._places[key]
        load, context = phase.load, int(phase.load * phase.context)

        def seconds_of(k: int) -> float:
            return self._step.seconds(load, k, context) / self._speeds[pod]

        def verified(k: int, steps: int) -> Sequence[float]:
            nonlocal place
            place += steps
            return counts[(place - 1) % TRACE_DRAFTS][:k]

        ran = self._loops[pod].fill(piece.seconds, load, context, seconds_of, verified, block=1)
        self._places[key] = place
        return [
            Stretch(
                float(load),
                k,
                steps * seconds_of(k),
                steps,
                steps * load + sum(accepted),
                tuple(accepted),
                context=float(steps * context),
            )
            for k, (steps, accepted) in sorted(ran.items())
        ]

    def _counted(self, key: tuple[str, int]) -> list[list[int]]:
        """By draft and position, the requests of which that token and all before it are accepted."""
        if key not in self._counts:
            runs, longest = self._traces[key], len(self._phases[key[1]].acceptance)
            self._counts[key] = np.stack([(runs > at).sum(axis=0) for at in range(longest)], axis=1).tolist()
        return self._counts[key]

    def _steps(self, pod: str, piece: Piece) -> Stretch:
        """Run whole steps that fill a piece; the traces continue where they ended."""
        phase, key = self._phases[piece.phase], (pod, piece.phase)
        context = phase.load * phase.context
        seconds = self._step.seconds(phase.load, piece.k, context) / self._speeds[pod]
        steps = max(1, round(piece.seconds / seconds))
        columns = (self._places[key] + np.arange(steps)) % TRACE_DRAFTS
        self._places[key] += steps
        runs = np.minimum(self._traces[key][:, columns], piece.k)
        counts = np.bincount(runs.ravel(), minlength=piece.k + 1)
        accepted = tuple(float(n) for n in counts[::-1].cumsum()[::-1][1:])
        emitted = steps * phase.load + sum(accepted)
        return Stretch(
            float(phase.load),
            piece.k,
            steps * seconds,
            steps,
            emitted,
            accepted,
            context=steps * context,
        )

    def _noisy(self, stretches: Sequence[Stretch]) -> list[Stretch]:
        """Step times off by the noise of their length; tokens and steps as they were."""
        return [
            replace(s, seconds=s.seconds / noise_factor(self._noise, s.seconds, self._rng)) for s in stretches
        ]
