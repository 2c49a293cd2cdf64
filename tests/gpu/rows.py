"""The rows of docs/coverage.md that only a GPU can show, each with what the check found. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.runtimes.vllm.limits import default_max_num_seqs
from outrider.sizing.drafters import DraftingModel, draft_model, eagle_head, prediction_layer
from outrider.sizing.gpus import gpu_of_product
from outrider.sizing.hf_config import read_config
from outrider.sizing.memory import GRAPH_BYTES, GRAPH_BYTES_PER_FURTHER_K
from outrider_protocol.methods import Method
from tests.gpu.models import Pair
from tests.gpu.verdicts import Check, of_fact

ASYNCHRONOUS = "the same on the V2 runner, synchronous and asynchronous"
GRAPHS = "full CUDA graphs with a live schedule"
DEFAULTS = "vLLM's own defaults on every GPU"
IMAGE = "the image for GPUs"
ESTIMATES = "speedup, VRAM and cost estimates (`outrider plan`)"
ROWS = (ASYNCHRONOUS, GRAPHS, DEFAULTS, IMAGE, ESTIMATES)
"""By the words of their first column."""

FULL = "FULL"
"""Begins the mode of CUDA graphs with which decode steps replay one graph."""
WEIGHTS_PERCENT = 5.0
"""By which the estimate of the weights may differ from what vLLM reports."""
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Launched:
    """The first page's launch. start: as `Started.described` has it. disagreements: sums of the plugin that
    differ from vLLM's; None where nothing was counted."""

    start: Mapping[str, Any]
    disagreements: Mapping[str, object] | None
    candidates: Sequence[int]
    method: Method
    pair: Pair
    gpu: str
    """Name of the GPU with its memory, as nvidia-smi has it; empty without one."""

    @property
    def state(self) -> Mapping[str, Any]:
        """The state of the engine before anything was pushed."""
        found: Mapping[str, Any] = self.start["state"]
        return found

    @property
    def log(self) -> Mapping[str, Any]:
        """What its log says of the start."""
        found: Mapping[str, Any] = self.start["log"]
        return found


def coverage_rows(launched: Launched) -> Iterator[Check]:
    """One check per row, in the order of `ROWS`."""
    state, log = launched.state, launched.log
    scheduler, runner = log["scheduler"], state["runner"]
    live = state["liveTuning"]["possible"]
    counted = launched.disagreements
    yield of_fact(
        ASYNCHRONOUS,
        None
        if scheduler is None or counted is None
        else runner == "V2" and str(scheduler).startswith("Async") and live and not counted,
        {"runner": runner, "scheduler": scheduler, "live": live, "disagreements": counted},
    )
    yield _graphs(launched)
    yield _defaults(launched)
    yield of_fact(
        f"{IMAGE}: launcher and plugin on this vLLM",
        state["engineVersion"] is not None,
        {"engineVersion": state["engineVersion"], "pluginVersion": state["pluginVersion"]},
    )
    yield _estimates(launched)


def _graphs(launched: Launched) -> Check:
    state, log = launched.state, launched.log
    mode, captured = state["cudaGraphs"], state["capturedK"]
    figures = {"mode": mode, "capturedK": captured, "gib": log["graph_gib"], "seconds": log["graph_seconds"]}
    if log["graph_gib"] is None:
        return of_fact(GRAPHS, None, figures)
    full = str(mode).startswith(FULL) and set(launched.candidates) <= set(captured)
    return of_fact(GRAPHS, full, figures)


def _defaults(launched: Launched) -> Check:
    gpu, found = gpu_of_product(product(launched.gpu)), launched.state["maxNumSeqs"]
    expected = None if gpu is None else default_max_num_seqs(gpu.name, gpu.memory_bytes)
    holds = None if expected is None else found == expected
    return of_fact(DEFAULTS, holds, {"maxNumSeqs": found, "expected": expected})


def _estimates(launched: Launched) -> Check:
    """Memory of weights and graphs, by the formulas of ``outrider plan`` against vLLM's log."""
    loaded, graphs = launched.log["loaded_gib"], launched.log["graph_gib"]
    target, drafter = sizes(launched.method, launched.pair)
    weights = (target + drafter) / GIB
    reserved = (GRAPH_BYTES + GRAPH_BYTES_PER_FURTHER_K * (len(launched.candidates) - 1)) / GIB
    figures = {
        "weights_gib": {"plan": round(weights, 2), "engine": loaded},
        "graphs_gib": {"plan": round(reserved, 2), "engine": graphs},
    }
    if not launched.gpu or loaded is None or graphs is None:
        return of_fact(ESTIMATES, None, figures)
    error = 100 * (weights / loaded - 1)
    holds = abs(error) <= WEIGHTS_PERCENT and graphs <= reserved
    return of_fact(ESTIMATES, holds, {**figures, "weights_error_percent": round(error, 2)})


def sizes(method: Method, pair: Pair) -> tuple[float, float]:
    """Bytes of the weights of target and drafter, by the formulas of ``outrider plan``."""
    target = read_config(_config(pair.target), name="target")
    drafting: DraftingModel | None = None
    if method is Method.DRAFT_MODEL and pair.drafter is not None:
        drafting = draft_model(read_config(_config(pair.drafter), name="drafter"), "config.json")
    elif method in (Method.EAGLE, Method.EAGLE3):
        drafting = eagle_head(method, target)
    elif method is Method.MTP:
        drafting = prediction_layer(target)
    return target.weight_bytes, 0.0 if drafting is None else drafting.weight_bytes


def _config(folder: Path) -> str:
    return (folder / "config.json").read_text(encoding="utf-8")


def product(gpu: str) -> str:
    """The label of a GPU's product, from its line of nvidia-smi: name, memory, driver."""
    return gpu.partition(",")[0].replace(" ", "-")
