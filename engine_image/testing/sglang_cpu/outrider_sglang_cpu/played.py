"""What a simulated SGLang plays in place of computing: the clock of its rounds, and accepted drafts.

Descriptions, texts and draws are those of the simulated vLLM (`outrider_twin`). The clock advances by the
step time of each round and stands still between rounds. So a busy machine makes no round longer. Batches are
known by their names only, so that tests can build one.

Source: SGLang 0.5.23. A batch either computes prompts or decodes. A round that decodes drafts and verifies
the same K. Its drafter runs K times, and at K=0 once, in order to fill its KV cache: that is the
description's ``idle_tax``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypedDict

from outrider_twin.acceptance import Curve
from outrider_twin.batch import TEXT, Texts
from outrider_twin.draws import accepted, prompt_key
from outrider_twin.settings import Settings
from outrider_twin.step_time import Load

_PLAYED = "outrider_played"
"""Attribute of a request: the key of its text, and its curve."""


class Seen(TypedDict):
    """What was played since the start.

    engine: name of the description. seconds: of all rounds. rounds, tokens: of batches that decode, by K.
    """

    engine: str
    seconds: float
    rounds: dict[str, int]
    tokens: dict[str, int]


class Play:
    """Clock and texts of one scheduler with a drafter. pod: seeds the noise."""

    def __init__(self, settings: Settings, *, pod: str) -> None:
        description = settings.description()
        self._title = description.title
        self._timing = description.timing(drafter=True)
        self._texts = Texts(description.curves(), settings.shares(), settings.seed)
        self._noise = settings.noise_of(pod)
        self._factor = settings.time_factor
        self._now, self._batches = 0.0, 0
        self._rounds: Counter[int] = Counter()
        self._tokens: Counter[int] = Counter()

    def clock(self) -> float:
        """Seconds of all rounds since the start."""
        return self._now

    def seconds(self, batch: int, k: int, kv_tokens: int = 0) -> float:
        """Time of a round that decodes, without noise."""
        return self._factor * self._timing.seconds(_decoding(batch, k, kv_tokens))

    def ran(self, batch: Any, k: int) -> float:
        """A batch was computed, with this K where it decodes: the clock advances by its time, in seconds."""
        requests = batch.reqs
        kv_tokens = sum(request.seqlen for request in requests)
        if batch.forward_mode.is_extend():
            tokens = int(batch.extend_num_tokens or 0)
            load = Load(0, 0, len(requests), tokens, tokens, kv_tokens)
        else:
            load = _decoding(len(requests), k, kv_tokens)
        noise = self._noise.factor(self._batches, self._now)
        self._batches += 1
        seconds = self._factor * noise * self._timing.seconds(load)
        self._now += seconds
        return seconds

    def accepted(self, batch: Any, k: int) -> list[int]:
        """Number of accepted drafts of each request, by its prompt and the place in its text."""
        found = []
        for request in batch.reqs:
            key, curve = self._text(request)
            found.append(accepted(key, len(request.output_ids), k, curve.at))
        self._rounds[k] += 1
        self._tokens[k] += sum(found) + len(found)
        return found

    def seen(self) -> Seen:
        """The sums so far."""
        return Seen(
            engine=self._title,
            seconds=self._now,
            rounds={str(k): count for k, count in sorted(self._rounds.items())},
            tokens={str(k): count for k, count in sorted(self._tokens.items())},
        )

    def _text(self, request: Any) -> tuple[int, Curve]:
        known: tuple[int, Curve] | None = getattr(request, _PLAYED, None)
        if known is None:
            key = prompt_key(request.origin_input_ids, self._texts.seed)
            named = (request.sampling_params.custom_params or {}).get(TEXT)
            known = key, self._texts.curve(key, named)
            setattr(request, _PLAYED, known)
        return known


def _decoding(batch: int, k: int, kv_tokens: int) -> Load:
    return Load(k, batch, batch, batch * (1 + k), 0, kv_tokens)
