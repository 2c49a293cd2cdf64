"""GuideLLM 0.8: its arguments for one measurement, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from outrider.api.validation_message import first_validation_message
from outrider.bench.texts import PromptSet, Shape, data_words

Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class UnreadableResult(ValueError):
    """A report of GuideLLM in another form; the message says where it differs."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one measurement: streams that send a request as soon as they have an answer, or a rate."""

    target: str  # URL without /v1
    model: str  # its served name
    streams: int
    seconds: float
    max_tokens: int
    rate: float | None = None  # requests per second, with random pauses, in place of streams
    temperature: float | None = None  # None: the server's default


@dataclass(frozen=True, slots=True)
class Slice:
    """One measurement, as the clients saw it."""

    tokens_per_second: float  # of all streams; answers that the end cut off count too
    first_token_ms: float | None  # mean; None: no answer was finished, or the report lacks it
    between_tokens_ms: float | None  # the same
    finished: int
    failed: int

    @property
    def answer_tokens_per_second(self) -> float | None:
        """Speed of one answer, after its first token; None: no answer was finished."""
        return 1000.0 / self.between_tokens_ms if self.between_tokens_ms else None


def arguments(load: Load, *, texts: PromptSet | Shape | str, output: str) -> tuple[str, ...]:
    """The arguments of ``guidellm``. texts: a path has one JSON object per line. output: a new file."""
    backend = f"target={load.target},model={load.model},max_tokens={load.max_tokens}"
    if load.temperature is not None:
        backend += f",extras.body.temperature={load.temperature:g}"
    profile = f"kind=concurrent,streams={load.streams}"
    if load.rate is not None:
        profile = f"kind=poisson,rate={load.rate:g}"
    return (
        "run",
        *("--backend", f"kind=openai_http,request_format=/v1/completions,{backend}"),
        *("--profile", profile),
        *("--constraint", f"kind=max_duration,seconds={load.seconds:g}"),
        *data_words(texts),
        *("--output", f"kind=json,path={output}"),
        # Neither texts of requests nor of answers are kept.
        *("--metrics", "kind=generative,sample_size=0"),
        "--disable-console",
    )


class _View(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Mean(_View):
    mean: Finite


class _ByEnd(_View):
    successful: _Mean | None = None
    total: _Mean | None = None


class _Totals(_View):
    successful: Annotated[int, Field(ge=0)]
    errored: Annotated[int, Field(ge=0)]


class _Metrics(_View):
    request_totals: _Totals
    output_tokens_per_second: _ByEnd
    time_to_first_token_ms: _ByEnd
    inter_token_latency_ms: _ByEnd


class _Benchmark(_View):
    metrics: _Metrics


class _Report(_View):
    benchmarks: Annotated[Sequence[_Benchmark], Field(min_length=1)]


def read(text: str) -> Slice:
    """The only benchmark of a report.

    Raises:
        UnreadableResult: the text is not a report of GuideLLM 0.8.
    """
    try:
        metrics = _Report.model_validate_json(text).benchmarks[0].metrics
    except ValidationError as error:
        raise UnreadableResult(first_validation_message(error, whole="report")) from error
    totals, rate = metrics.request_totals, metrics.output_tokens_per_second.total
    return Slice(
        tokens_per_second=0.0 if rate is None else rate.mean,
        first_token_ms=_mean(metrics.time_to_first_token_ms, totals),
        between_tokens_ms=_mean(metrics.inter_token_latency_ms, totals),
        finished=totals.successful,
        failed=totals.errored,
    )


def _mean(found: _ByEnd, totals: _Totals) -> float | None:
    return found.successful.mean if found.successful is not None and totals.successful else None
