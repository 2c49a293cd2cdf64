"""Which of vLLM's model runners an engine is started with, and how it gets its schedule.

With a schedule in the flags the V1 runner has no full CUDA graphs. The V2 runner captures one for each K of
the schedule, where its drafter follows K.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from outrider.api.spec import ModelRunner, Spec
from outrider.runtimes.resources import uses_gpu
from outrider_protocol.methods import Method
from outrider_protocol.releases import PIPELINE_SINCE, Response, Runner, parse_version, response, version_text


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


def launch_form(spec: Spec, *, stock: bool) -> LaunchForm:
    """Runner and table for ``spec``. stock: the engine is started without the plugin.

    Where V2 follows K it is vLLM's own choice on a GPU, so no variable names it. A feature that V2 lacks then
    leads to V1, and not to an engine that does not start.
    """
    runner = _RUNNERS[spec.engine.model_runner]
    if not spec.live:
        return LaunchForm(runner, TablePlace.NOWHERE)
    if runner is Runner.V2 or (runner is None and uses_gpu(spec) and _follows_on_v2(spec)):
        return LaunchForm(runner, TablePlace.FLAGS)
    return LaunchForm(Runner.V1, TablePlace.FLAGS if stock else TablePlace.PLUGIN)


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
    answer = response(method.variant, runner, parse_version(spec.engine.version))
    if answer is Response.ABSENT:
        return f"{where} has no method {method}; set spec.engine.modelRunner: Auto"
    if spec.live and answer is not Response.FOLLOWS:
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


def _follows_on_v2(spec: Spec) -> bool:
    version = parse_version(spec.engine.version)
    return response(spec.speculation.method.variant, Runner.V2, version) is Response.FOLLOWS
