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
from outrider_lab.engines.fast_loops import Done, InEngine
from outrider_lab.engines.fleet import Span, noise_factor
from outrider_lab.engines.verification.confidence import concentration_of, draft_probabilities, log_odds_of
from outrider_lab.engines.verification.setting import AdaptiveVerification
from outrider_lab.engines.verification.verifier import Verifier
from outrider_lab.engines.windows import Stretch

TRACE_DRAFTS = 4096
"""Drafts after which a trace begins again."""
CONCENTRATION = 20.0
"""Concentration of the beta distribution of acceptance over requests; a larger one means less spread.
The standard deviation at a mean of 0.7 is 0.1."""

CHUNK_STEPS = 128
"""Most steps of adaptive verification that are computed at once."""

Runs = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Text:
    """What the requests of a phase write."""

    acceptance: Floats  # by request and position, given that all before it were accepted
    runs: Runs  # accepted tokens in a row, by request and draft


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
    """Accepted tokens in a row, one row per request, one column per draft; see `_text`."""
    return _text(acceptance, streams, rng, drafts).runs


def _text(
    acceptance: Sequence[float], streams: int, rng: np.random.Generator, drafts: int = TRACE_DRAFTS
) -> Text:
    """Drafts of requests that differ.

    Each position's probability is drawn once per request from a beta distribution around `acceptance`, with
    the same quantile for all positions.
    """
    level = np.sort(rng.beta(CONCENTRATION / 2, CONCENTRATION / 2, size=streams)) - 0.5
    rng.shuffle(level)
    probabilities = np.clip(np.asarray(acceptance)[None, :] + level[:, None], 0.01, 0.99)
    hits = rng.random((streams, drafts, len(acceptance))) < probabilities[:, None, :]
    return Text(probabilities, np.cumprod(hits, axis=2).sum(axis=2))


def _text_of(phase: FormulaPhase, rng: np.random.Generator) -> Text:
    if phase.second is None:
        return _text(phase.acceptance, phase.load, rng)
    others = phase.load // 2
    first = _text(phase.acceptance, phase.load - others, rng)
    if not others:
        return first
    second = _text(phase.second, others, rng)
    return Text(
        np.concatenate([first.acceptance, second.acceptance]), np.concatenate([first.runs, second.runs])
    )


@lru_cache(maxsize=1)
def _texts_of(
    phases: tuple[FormulaPhase, ...], pods: tuple[str, ...], seed: int
) -> Mapping[tuple[str, int], Text]:
    """By pod and phase; kept, since every policy meets the same text."""
    text = np.random.default_rng(seed)
    return {(pod, index): _text_of(phase, text) for pod in pods for index, phase in enumerate(phases)}


class _Trimming:
    """Adaptive verification of one pod, whose drafts are those of the texts."""

    def __init__(
        self,
        step: StepTime,
        setting: AdaptiveVerification,
        phases: Sequence[FormulaPhase],
        texts: Mapping[int, Text],
        seed: int,
    ) -> None:
        self._step, self._phases, self._texts, self._setting, self._seed = step, phases, texts, setting, seed
        longest = min(len(phase.acceptance) for phase in phases)
        largest = max(phase.load for phase in phases)
        self._verifier = Verifier(
            step,
            setting,
            longest=longest,
            largest_batch=largest,
            largest_tokens=largest * (1 + longest),
        )
        self._log_odds: dict[int, Floats] = {}

    def run(self, phase: int, k: int, place: int, *, most: int, seconds: float) -> tuple[int, Floats, Runs]:
        """Steps with K drafted tokens, from a place in the trace: how many, seconds of each, accepted tokens.

        most: steps. seconds: the last step begins so early that at least half of it is within.
        """
        steps = min(most, CHUNK_STEPS, self._verifier.estimator.steps_to_fit)
        load, context = self._phases[phase].load, self._phases[phase].load * self._phases[phase].context
        columns = (place + np.arange(-1, steps)) % TRACE_DRAFTS
        log_odds = self._log_odds_of(phase)[columns][:, :, :k]
        before, now = log_odds[:-1], log_odds[1:]
        widths = self._verifier.widths(before, now)
        draft = self._step.draft_seconds(load, k, context)
        target = self._step.target_seconds(load, context)
        each = draft + target + self._step.per_token * widths.sum(axis=1)
        fits = max(1, int((np.cumsum(each) - each / 2 <= seconds).sum()))
        runs = np.minimum(self._texts[phase].runs[:, columns[1 : fits + 1]].T, widths[:fits])
        self._verifier.estimator.learn(now[:fits], widths[:fits], runs)
        return fits, each[:fits], runs

    def _log_odds_of(self, phase: int) -> Floats:
        """By draft, request and position."""
        if phase not in self._log_odds:
            text = self._texts[phase]
            rng = np.random.default_rng((self._seed, 7, phase))
            probabilities = draft_probabilities(
                text.acceptance[:, None, :], text.runs, concentration_of(self._setting.separation), rng
            )
            self._log_odds[phase] = log_odds_of(probabilities).transpose(1, 0, 2)
        return self._log_odds[phase]


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
        self._texts, self._traces_seed = (
            _texts_of(tuple(phases), tuple(self._speeds), traces_seed),
            traces_seed,
        )
        self._places = dict.fromkeys(self._texts, 0)
        self._trimmings: dict[str, _Trimming] = {}
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

        def run(k: int, steps: int) -> Done:
            nonlocal place
            place += steps
            at = (place - 1) % TRACE_DRAFTS
            if trimming is None or k == 0:
                return Done(seconds_of(k), counts[at][:k])
            _, (seconds,), runs = trimming.run(piece.phase, k, at, most=1, seconds=seconds_of(k))
            return Done(seconds / self._speeds[pod], _by_position(runs, k))

        trimming = self._trimming(pod)
        ran = self._loops[pod].fill(piece.seconds, load, context, seconds_of, run, block=1)
        self._places[key] = place
        return [
            Stretch(
                float(load),
                k,
                one.seconds,
                one.steps,
                one.steps * load + sum(one.accepted),
                tuple(one.accepted),
                context=float(one.steps * context),
            )
            for k, one in sorted(ran.items())
        ]

    def _counted(self, key: tuple[str, int]) -> list[list[int]]:
        """By draft and position, the requests of which that token and all before it are accepted."""
        if key not in self._counts:
            runs, longest = self._texts[key].runs, len(self._phases[key[1]].acceptance)
            self._counts[key] = np.stack([(runs > at).sum(axis=0) for at in range(longest)], axis=1).tolist()
        return self._counts[key]

    def _steps(self, pod: str, piece: Piece) -> Stretch:
        """Run whole steps that fill a piece; the traces continue where they ended."""
        phase, key = self._phases[piece.phase], (pod, piece.phase)
        trimming = self._trimming(pod)
        if trimming is not None and piece.k > 0:
            return self._trimmed_steps(pod, piece, trimming)
        context = phase.load * phase.context
        seconds = self._step.seconds(phase.load, piece.k, context) / self._speeds[pod]
        steps = max(1, round(piece.seconds / seconds))
        columns = (self._places[key] + np.arange(steps)) % TRACE_DRAFTS
        self._places[key] += steps
        accepted = _by_position(np.minimum(self._texts[key].runs[:, columns], piece.k), piece.k)
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

    def _trimmed_steps(self, pod: str, piece: Piece, trimming: _Trimming) -> Stretch:
        """The same with adaptive verification: the length of a step depends on its drafts."""
        phase, key = self._phases[piece.phase], (pod, piece.phase)
        speed, load = self._speeds[pod], phase.load
        left, done, total, accepted = piece.seconds, 0, 0.0, [0.0] * piece.k
        while True:
            steps, each, runs = trimming.run(
                piece.phase, piece.k, self._places[key], most=CHUNK_STEPS, seconds=left * speed
            )
            self._places[key] += steps
            seconds = float(each.sum()) / speed
            done, total, left = done + steps, total + seconds, left - seconds
            accepted = [a + b for a, b in zip(accepted, _by_position(runs, piece.k), strict=True)]
            if left < 0.5 * each[-1] / speed:
                break
        emitted = done * load + sum(accepted)
        context = done * load * phase.context
        return Stretch(float(load), piece.k, total, done, emitted, tuple(accepted), context=context)

    def _trimming(self, pod: str) -> _Trimming | None:
        """Adaptive verification of a pod; None where all drafts are verified."""
        if self._verification is None:
            return None
        if pod not in self._trimmings:
            texts = {index: text for (of, index), text in self._texts.items() if of == pod}
            self._trimmings[pod] = _Trimming(
                self._step, self._verification, self._phases, texts, self._traces_seed
            )
        return self._trimmings[pod]

    def _noisy(self, stretches: Sequence[Stretch]) -> list[Stretch]:
        """Step times off by the noise of their length; tokens and steps as they were."""
        return [
            replace(s, seconds=s.seconds / noise_factor(self._noise, s.seconds, self._rng)) for s in stretches
        ]


def _by_position(runs: Runs, k: int) -> tuple[float, ...]:
    """Drafts accepted up to each position."""
    counts = np.bincount(runs.ravel(), minlength=k + 1)
    return tuple(float(n) for n in counts[::-1].cumsum()[::-1][1 : k + 1])
