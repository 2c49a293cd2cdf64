"""Why Outrider adds what it adds to SGLang's command line and environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from outrider.api.spec import Spec
from outrider.runtimes.plugin import WHY
from outrider.runtimes.sglang import adaptive
from outrider.runtimes.sglang.environment import PLUGINS_VARIABLE

_NODES = "where the pods of a replica meet"
_FLAGS: Mapping[str, str] = {
    "served-model-name": "the name of the object, since spec.model.servedName is not set",
    "host": "probes and the Service reach the engine from outside of its pod",
    "port": "probes and the Service find the engine here; spec.engine.port is another one",
    "enable-metrics": "tuning reads the engine's metrics",
    "speculative-eagle-topk": "K changes in a running engine with chains alone",
    "speculative-num-draft-tokens": "a chain has the drafted tokens and one that the target adds",
    "speculative-adaptive": "SGLang builds a state with CUDA graphs for each K",
    "speculative-adaptive-config": "the K that SGLang builds states for",
    "nnodes": "from spec.parallelism.nodes",
    "node-rank": "which pod of its replica this is",
    "dist-init-addr": _NODES,
}
_VARIABLES: Mapping[str, str] = {
    **WHY,
    PLUGINS_VARIABLE: "SGLang loads these plugins, and no others; podTemplate may name more",
    adaptive.VARIABLE: "the content of the file with the adaptive configuration",
}


def flag_additions(spec: Spec, words: Sequence[str], *, stock: bool) -> Iterator[tuple[str, str]]:  # noqa: ARG001
    """Each flag that no field says, and why it is there."""
    said = {"served-model-name"} if spec.model.served_name is not None else set()
    said |= {"port"} if "port" in spec.engine.model_fields_set else set()
    for word in words:
        name = word.partition("=")[0].removeprefix("--")
        if word.startswith("--") and name in _FLAGS and name not in said:
            yield word, _FLAGS[name]


def variable_additions(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each variable that Outrider sets, and why."""
    yield from ((name, _VARIABLES[name]) for name in names if name in _VARIABLES)
