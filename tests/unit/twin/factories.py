"""Made-up outputs of vLLM's scheduler, and short ways to write the settings of a simulated engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from outrider_twin.settings import Settings
from outrider_twin.step_time import Load

PROMPT = tuple(range(100, 140))


def a_load(
    *,
    k: int = 0,
    batch: int = 1,
    prompt_tokens: int = 0,
    kv_tokens: int = 0,
) -> Load:
    """A step in which every request decodes with drafts of ``k`` tokens."""
    return Load(
        k=k,
        decoding=batch,
        requests=batch,
        tokens=batch * (1 + k) + prompt_tokens,
        prompt_tokens=prompt_tokens,
        kv_tokens=kv_tokens,
    )


def some_settings(**changes: object) -> Settings:
    """Steps of 10 ms, and 1 ms more per drafted token; drafts are accepted at every second place."""
    engine = {
        "step_time": {"fixed": 0.01, "draft_fixed": 0.001},
        "survival": {"even": [0.5, 0.25, 0.125]},
        "kv_tokens": 10_000,
    }
    return Settings.model_validate({"engine": engine, **changes})


def a_new_request(
    request_id: str = "a",
    *,
    prompt: Sequence[int] = PROMPT,
    computed: int = 0,
    text: str | None = None,
    so_far: Sequence[int] | None = None,
) -> Any:
    """The scheduler's output for a request that is new."""
    extra = None if text is None else {"twin_text": text}
    return SimpleNamespace(
        req_id=request_id,
        prompt_token_ids=list(prompt),
        prefill_token_ids=so_far,
        num_computed_tokens=computed,
        sampling_params=SimpleNamespace(extra_args=extra),
    )


def an_output(
    *,
    scheduled: Mapping[str, int],
    new: Sequence[Any] = (),
    cached: Mapping[str, tuple[int, int]] | None = None,
    resumed: Iterable[str] = (),
    drafts: Mapping[str, int] | None = None,
    k: int = 0,
    finished: Iterable[str] = (),
) -> Any:
    """What the scheduler asks for. cached: by request, its computed tokens and its output so far."""
    known = cached or {}
    return SimpleNamespace(
        num_scheduled_tokens=dict(scheduled),
        total_num_scheduled_tokens=sum(scheduled.values()),
        scheduled_new_reqs=list(new),
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(known),
            resumed_req_ids=set(resumed),
            num_computed_tokens=[computed for computed, _ in known.values()],
            num_output_tokens=[outputs for _, outputs in known.values()],
        ),
        scheduled_spec_decode_tokens={name: [-1] * count for name, count in (drafts or {}).items()},
        num_spec_tokens_to_schedule=k,
        finished_req_ids=set(finished),
    )
