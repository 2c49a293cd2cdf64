"""The question to ``outrider plan``, from options and a manifest, in a form that the formulas can answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue, ValidationError

from outrider.api.engine import Engine
from outrider.api.mistakes import validation_message
from outrider.api.resource import KIND, SpeculativeModel
from outrider.api.spec import Spec
from outrider.cli.common.files import read_text
from outrider.cli.common.manifests import checked, raw_models
from outrider.cli.common.output import CommandError
from outrider.cli.plan.options import Options
from outrider.cli.plan.parts import (
    drafter_of,
    gpu_of,
    measured_table,
    method_of,
    target_of,
    uri_of_model,
    with_flags,
)
from outrider.runtimes import RUNTIMES
from outrider.sizing.architecture import Architecture
from outrider.sizing.forecast import Forecast, Question
from outrider.sizing.gpus import Gpu
from outrider.sizing.known_drafters import KnownDrafter, drafters_of
from outrider.sizing.manifest import new_manifest, with_memory_share, with_proposal
from outrider.sizing.memory import Load, Verdict
from outrider.sizing.proposal import Proposal
from outrider.sizing.sources import Evidence, Source
from outrider.sizing.spread import Spread
from outrider.sizing.tasks import Task
from outrider_protocol.methods import Method

_CONTEXT = 4096
_STREAMS = 8


@dataclass(frozen=True)
class Asked:
    """A question, and what a manifest needs besides its answer."""

    question: Question
    raw: Mapping[str, JsonValue] | None  # the file's manifest
    uri: str
    drafter_uri: str | None
    memory_share: float | None  # as given; None: left to file and engine

    @property
    def known_drafters(self) -> Sequence[KnownDrafter]:
        """Published drafters of the target."""
        return drafters_of(self.uri)

    def manifest(self, answer: Forecast) -> dict[str, JsonValue] | None:
        """The manifest with the proposal; None where the file is judged as it is, or none can be proposed."""
        if self.question.fixed is not None or answer.no_speeds is not None:
            return None
        if answer.memory.verdict not in (Verdict.FITS, Verdict.CROWDED):
            return None
        made = self._new(answer) if self.raw is None else with_proposal(self.raw, answer.proposal)
        if self.memory_share is not None:
            made = with_memory_share(made, self.memory_share)
        try:
            SpeculativeModel.model_validate(made)
        except ValidationError as error:
            raise CommandError(f"the manifest would be refused: {validation_message(error, made)}") from error
        return made

    def _new(self, answer: Forecast) -> dict[str, JsonValue]:
        question = self.question
        return new_manifest(
            answer.proposal,
            uri=self.uri,
            method=question.drafter.method,
            drafter_uri=self.drafter_uri,
            gpus=question.spread.gpus,
            max_length=question.load.context,
        )


def asked(options: Options) -> Asked:
    """The question that the options ask."""
    raw, spec = (None, None) if options.file is None else _read_manifest(options.file)
    _check(options, spec)
    uri = uri_of_model(options, spec)
    target, target_source = target_of(options, uri)
    if spec is not None and options.weights is None:
        target = with_flags(target, spec.engine.args)
    method, drafter_uri = method_of(options, spec, uri)
    drafter, warning = drafter_of(method, target, options.drafter or drafter_uri, spec)
    gpu = gpu_of(options, spec)
    share, most = _of_engine(spec, gpu)
    spread = _spread(options, spec)
    _check_heads(spread, target, "--gpus" if options.gpus is not None else "spec.parallelism.tensor")
    if options.memory_share is not None:
        share = options.memory_share
    question = Question(
        target=target,
        drafter=drafter,
        gpu=gpu,
        spread=spread,
        memory_share=share,
        max_num_seqs=most,
        load=_load(options, spec),
        task=options.task or Task.CHAT,
        acceptance=options.acceptance,
        answer_tokens=options.answer_tokens,
        price_per_hour=options.price_per_hour,
        measured=measured_table(options),
        fixed=None if spec is None or options.task is not None else _as_written(spec, options.file),
        sources=(target_source, *((drafter.source,) if method is not Method.NONE else ())),
        warnings=(*(() if warning is None else (warning,)), *(() if spec is None else _known_limits(spec))),
    )
    return Asked(question, raw, uri, drafter_uri, options.memory_share)


def _spread(options: Options, spec: Spec | None) -> Spread:
    if options.gpus is not None:
        return Spread(tensor=options.gpus)
    return Spread() if spec is None else Spread.of(spec.parallelism)


def _check_heads(spread: Spread, target: Architecture, field: str) -> None:
    """Refuse a size with which no engine starts. field: that has the size."""
    if spread.divides(target.heads):
        return
    sizes = [size for size in range(1, target.heads + 1) if Spread(tensor=size).divides(target.heads)]
    raise CommandError(
        f"{field} is {spread.tensor}, and vLLM cannot divide the {target.heads} attention heads of "
        f"{target.name} by that; write one of {', '.join(map(str, sizes))}"
    )


def _check(options: Options, spec: Spec | None) -> None:
    if spec is None:
        if options.model is None and options.config is None:
            raise CommandError("name a manifest, or a model with --model and a GPU with --gpu")
        return
    if options.model is not None or options.method is not None:
        raise CommandError("a manifest says its model and method itself; leave out --model and --method")
    method = spec.speculation.method
    if options.task is not None and not spec.live and method is not Method.NONE:
        raise CommandError(f"--task: {method} keeps one K here; leave --task out to judge the file as it is")


def _load(options: Options, spec: Spec | None) -> Load:
    written = None if spec is None else spec.model.longest_context
    return Load(options.streams or _STREAMS, options.context or written or _CONTEXT)


def _read_manifest(path: Path) -> tuple[Mapping[str, JsonValue], Spec]:
    found = raw_models(read_text(path), str(path))
    if len(found) > 1:
        raise CommandError(f"{path} holds {len(found)} objects of kind {KIND}; name a file with one")
    spec = checked(found[0], str(path)).spec
    if spec.target is not None:
        raise CommandError(
            f"{path} has spec.target, whose engines run already; name a manifest with spec.model"
        )
    return found[0], spec


def _of_engine(spec: Spec | None, gpu: Gpu) -> tuple[float, int]:
    """The ratio of the GPU's memory that the engine takes, and its largest batch."""
    engine = Engine() if spec is None else spec.engine
    runtime, arguments = RUNTIMES[engine.runtime], engine.args
    try:
        given = runtime.max_num_seqs(arguments)
        most = runtime.default_max_num_seqs(gpu.name, gpu.memory_bytes) if given is None else given
        share = runtime.gpu_memory_share(arguments)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if share is None:
        raise CommandError(
            f"Outrider has no figures for memory and speed of {engine.runtime}, so outrider plan does not "
            "answer for this manifest. For the same model in vLLM, set spec.engine.runtime: vLLM"
        )
    return share, most


def _known_limits(spec: Spec) -> tuple[str, ...]:
    """Known limits and defects of this launch, by the manifest alone."""
    runtime = RUNTIMES[spec.engine.runtime]
    refused = runtime.unsupported_reason(runtime.settled(spec, None), None)
    lines = () if refused is None else (f"the operator would refuse this manifest: {refused}",)
    return (*lines, *runtime.advice(spec, None))


def _as_written(spec: Spec, path: Path | None) -> Proposal:
    return Proposal(
        spec.candidates(),
        spec.static_schedule(),
        (Source("K, candidates, table", Evidence.READ, str(path)),),
    )
