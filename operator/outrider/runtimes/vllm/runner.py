"""Which of vLLM's model runners an engine is started with, and how it gets its schedule.

With a schedule in the flags the V1 runner has no full CUDA graphs. The V2 runner captures one for each K of
the schedule. `outrider_protocol.k_control` has the rule by which one of them is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from outrider.api.engine import ModelRunner
from outrider.api.spec import Spec
from outrider.api.speculative_config import OWN_VOCABULARY
from outrider.api.tuning import Actuation
from outrider.runtimes.flag_values import own_value
from outrider.runtimes.resources import uses_gpu
from outrider_protocol.k_control import KControl, best_runner, k_control
from outrider_protocol.methods import Method
from outrider_protocol.releases import (
    PIPELINE_SINCE,
    VERSIONS,
    Response,
    Runner,
    Version,
    parse_version,
    response,
    version_text,
)


class TablePlace(Enum):
    """How an engine gets its schedule."""

    NOWHERE = "nowhere"
    """It has none: K cannot change."""
    FLAGS = "flags"
    """vLLM reads it at the start."""
    PLUGIN = "plugin"
    """The plugin attaches it to the scheduler, and vLLM's configuration never sees it."""


@dataclass(frozen=True, slots=True)
class LaunchForm:
    """Runner and table of one launch."""

    runner: Runner | None
    """The runner that vLLM gets by a variable; None: it chooses."""
    table: TablePlace


_RUNNERS: Mapping[ModelRunner, Runner | None] = {
    ModelRunner.AUTO: None,
    ModelRunner.V1: Runner.V1,
    ModelRunner.V2: Runner.V2,
}
_V2_BY_DEFAULT: Version = (0, 32)
"""The first version in which vLLM takes V2 for every model. Source: ``VllmConfig.use_v2_model_runner``."""
_MICROBATCHES = ("enable-dbo", "ubatch-size")
"""Flags with which vLLM divides a batch: V2 does not draft then."""


def launch_form(spec: Spec, *, stock: bool) -> LaunchForm:
    """Runner and table for ``spec``. stock: the engine is started without the plugin.

    V2 is vLLM's own choice on a GPU, so no variable names it. A feature that V2 lacks then leads to V1, and
    not to an engine that does not start.
    """
    runner = _RUNNERS[spec.engine.model_runner]
    if not spec.live:
        return LaunchForm(runner, TablePlace.NOWHERE)
    if tuned_on(spec) is Runner.V2:
        return LaunchForm(runner, TablePlace.FLAGS)
    return LaunchForm(Runner.V1, TablePlace.FLAGS if stock else TablePlace.PLUGIN)


def tuned_on(spec: Spec) -> Runner | None:
    """The runner on which K of ``spec`` changes; None where it changes on none that the launch can have.

    Heads that only V2 has are not regarded: `outrider.runtimes.vllm.one_k`.
    """
    return _best(spec, parse_version(spec.engine.version), _possible(spec))


def starts_on_v2(spec: Spec) -> bool:
    """Whether an engine of ``spec`` is certain to start on V2."""
    version, named = parse_version(spec.engine.version), _RUNNERS[spec.engine.model_runner]
    if response(spec.speculation.method.variant, Runner.V2, version) is Response.ABSENT:
        return False
    if named is not None or (spec.live and tuned_on(spec) is Runner.V1):
        return named is Runner.V2
    return version >= _V2_BY_DEFAULT and Runner.V2 in _possible(spec)


def _best(spec: Spec, version: Version, runners: tuple[Runner, ...]) -> Runner | None:
    return best_runner(spec.speculation.method.variant, version, plugin=_has_plugin(spec), runners=runners)


def _possible(spec: Spec) -> tuple[Runner, ...]:
    """The runners that the launch can have. V2 needs Triton, which engines without a GPU lack. V1 verifies
    every draft."""
    named = _RUNNERS[spec.engine.model_runner]
    if spec.speculation.verifies_adaptively:
        return (Runner.V2,)
    if named is not None:
        return (named,)
    return tuple(Runner) if uses_gpu(spec) and not _lacks_on_v2(spec) else (Runner.V1,)


def _lacks_on_v2(spec: Spec) -> bool:
    """Whether V2 lacks a feature of the launch.

    Source: ``VllmConfig._get_v2_model_runner_unsupported_features`` of 0.32 and 0.33, without what a pod of
    Outrider never has.
    """
    return _maps_tokens(spec) or _divides_batches(spec)


def _maps_tokens(spec: Spec) -> bool:
    return spec.speculation.config.get(OWN_VOCABULARY) is True


def _divides_batches(spec: Spec) -> bool:
    """Source: ``ParallelConfig.use_ubatching``."""
    doubled, parts = (own_value(spec.engine.args, flag) for flag in _MICROBATCHES)
    return doubled is True or str(parts) not in ("None", "0", "1")


def _has_plugin(spec: Spec) -> bool:
    return spec.speculation.tuning.actuation is not Actuation.ROLLOUT


def runner_refusal(spec: Spec) -> str | None:
    """Why this engine version cannot run the method on the runner that the spec names; None when it can."""
    runner, method = _RUNNERS[spec.engine.model_runner], spec.speculation.method
    if method is Method.NONE:
        return None
    if spec.parallelism.pipeline > 1 and (refusal := _pipeline_refusal(spec)) is not None:
        return refusal
    if runner is None:
        return None
    where = f"the {spec.engine.model_runner} runner of vLLM {spec.engine.version}"
    version = parse_version(spec.engine.version)
    if response(method.variant, runner, version) is Response.ABSENT:
        return f"{where} has no method {method}; set spec.engine.modelRunner: Auto"
    one_k = k_control(method.variant, runner, version, plugin=_has_plugin(spec)) is KControl.ONE_K
    if spec.live and one_k:
        return (
            f"{where} does not change K of {method} while it runs; set spec.engine.modelRunner: Auto, or "
            "name one value in spec.speculation.candidates, with tuning.mode: Off"
        )
    return None


def _pipeline_refusal(spec: Spec) -> str | None:
    """Why this version does not draft by the method over pipeline stages; None where it does."""
    method, version = spec.speculation.method, spec.engine.version
    first = PIPELINE_SINCE.get(method)
    if first is None or parse_version(version) < first:
        newer = "" if first is None else f"set spec.engine.version: {version_text(first)}.0 or newer, or "
        return (
            f"vLLM {version} does not draft by {method} with pipeline stages; {newer}"
            "spec.parallelism.pipeline: 1"
        )
    return None


def advice(spec: Spec) -> str | None:
    """That K changes on V1 on a GPU, why, and what would change it; None elsewhere, or for modelRunner V1."""
    automatic = spec.engine.model_runner is ModelRunner.AUTO
    if not (automatic and spec.live and uses_gpu(spec) and tuned_on(spec) is Runner.V1):
        return None
    graphs = "has full CUDA graphs for the maximum K only" if _has_plugin(spec) else "has no full CUDA graphs"
    return f"K changes on vLLM's V1 runner, which {graphs}: {_why_not_v2(spec)}"


def _why_not_v2(spec: Spec) -> str:
    method = spec.speculation.method
    if _maps_tokens(spec):
        return f"V2 does not have {OWN_VOCABULARY}. For V2, use a drafter with the model's vocabulary"
    if _divides_batches(spec):
        return f"V2 does not draft with {' or '.join(_MICROBATCHES)}. For V2, leave them out of engine.args"
    versions = (version for version in VERSIONS if _best(spec, version, tuple(Runner)) is Runner.V2)
    since = next(versions, None)
    if since is None:
        return f"V2 drafts the full length of {method}, whatever K is"
    newer = f"set spec.engine.version: {version_text(since)}.0 or newer"
    return f"V2 changes K of {method} from {version_text(since)} on. For V2, {newer}"
