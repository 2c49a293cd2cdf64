"""What the chart's policy adds to labelled pods, taken from ``outrider inject``.

``python -m charts.injection --write charts/outrider/files/`` writes it; a test fails when it is stale.

Which K an engine is launched with depends on release, method and GPU. So the command is asked for each
combination, and the policy has a list of its answers. The template `injectionpolicy.yaml` reads the pods.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from outrider.api.drafting import default_candidates
from outrider.api.generated import write_or_print
from outrider.importing.findings import ImportRefused
from outrider.importing.injection import Injection, inject
from outrider.runtimes.vllm.limits import SMALLEST_DEFAULT_BATCH
from outrider_protocol.environment import CANDIDATES_VARIABLE
from outrider_protocol.methods import TRAITS, Kind, Method
from outrider_protocol.releases import RELEASES

FILE_NAME = "injection.json"
IMAGE = "@IMAGE@"
"""In place of the plugin's image, which the chart's values have."""
MAX_K = 16
LEAST_BATCH = 8
"""Smallest ``--max-num-seqs`` that the policy reads. Each candidate needs a batch size."""
KEYS = (
    *("method", "model", "num_speculative_tokens", "draft_tensor_parallel_size", "revision"),
    *("prompt_lookup_max", "prompt_lookup_min"),
)
"""Keys of a speculative configuration with which a launch stays the one of the list."""
DENIED = (
    *("config", "convert", "data-parallel", "enable-dbo", "kv-transfer-config", "max-num-batched-tokens"),
    *("nnodes", "pipeline-parallel", "runner", "spec-", "speculative-config.", "ubatch-size"),
)
"""Beginnings of flags by which the command may decide in another way."""
_SHORT = ("dp", "dpa", "dpb", "dpe", "dph", "dpl", "dpn", "dpp", "dpr", "n", "pp", "sc")
_NAME = "@NAME@"
_TABLE = "num_speculative_tokens_per_batch_size"
_K_OF_THE_PROBE = 3


class Cel(str):
    """An expression in CEL; other values become literals."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """What the command decides by. drafter: the configuration names a model."""

    gpu: bool
    release: str
    method: Method
    drafter: bool

    def __str__(self) -> str:
        """The form in which the policy looks an engine up."""
        drafter = "drafter" if self.drafter else "alone"
        return f"{'GPU' if self.gpu else 'CPU'} {self.release} {self.method} {drafter}"


def pod_with_plugin(engine: Engine) -> dict[str, Any] | None:
    """The pod that ``outrider inject`` prints for an engine; None where it refuses."""
    config: dict[str, Any] = {"method": str(engine.method), "num_speculative_tokens": _K_OF_THE_PROBE}
    if engine.drafter:
        config["model"] = "organisation/drafter"
    container = {
        "name": "engine",
        "image": f"vllm/vllm-openai:v{engine.release}",
        "args": ["--model=organisation/name", f"--speculative-config={json.dumps(config)}"],
        "resources": {"limits": {"nvidia.com/gpu" if engine.gpu else "cpu": 1}},
    }
    pod = {"kind": "Pod", "metadata": {"name": _NAME}, "spec": {"containers": [container]}}
    try:
        (found,) = inject(json.dumps(pod), Injection(image=IMAGE))
    except ImportRefused:
        return None
    spec: Any = found.manifest["spec"]
    return dict(spec)


def has_table(pod: dict[str, Any]) -> bool:
    """Whether vLLM reads the K from its flags; else the plugin reads them from a variable."""
    return any(_TABLE in word for word in pod["containers"][0]["args"])


def _has_variable(pod: dict[str, Any]) -> bool:
    return any(one["name"] == CANDIDATES_VARIABLE for one in pod["containers"][0]["env"])


def accepted() -> Iterator[tuple[Engine, dict[str, Any]]]:
    """Each engine that the command accepts, with its pod."""
    for gpu in (True, False):
        for release in RELEASES:
            for method in Method:
                for drafter in (True, False):
                    engine = Engine(gpu, release, method, drafter)
                    pod = pod_with_plugin(engine)
                    if pod is not None:
                        yield engine, pod


def cel(value: object) -> str:
    """A value as CEL. Entries of maps may have different types."""
    match value:
        case Cel():
            return value
        case dict():
            return "{" + ", ".join(f"{cel(key)}: dyn({cel(part)})" for key, part in value.items()) + "}"
        case list():
            return "[" + ", ".join(cel(part) for part in value) + "]"
        case bool() | int() | str():
            return json.dumps(value)
    raise TypeError(f"no CEL for {type(value).__name__}")


def _of_the_pod(value: object) -> object:
    """A part of a printed pod with variables of the policy in place of the probe's name and K."""
    match value:
        case {"name": str(name), "value": str()} if name == CANDIDATES_VARIABLE:
            return {"name": name, "value": Cel("variables.candidateText")}
        case dict():
            return {key: _of_the_pod(part) for key, part in value.items()}
        case list():
            return [_of_the_pod(part) for part in value]
        case str() if _NAME in value:
            before, _, after = value.partition(_NAME)
            return Cel(f"{cel(before)} + variables.name + {cel(after)}")
    return value


def _parts(pod: dict[str, Any]) -> dict[str, list[str]]:
    """What the command adds to a pod, by the field that gets it. Every entry is CEL."""
    container = pod["containers"][0]
    fields = {
        "initContainers": pod["initContainers"],
        "volumes": pod["volumes"],
        "volumeMounts": container["volumeMounts"],
        "env": container["env"],
    }
    return {field: [cel(_of_the_pod(entry)) for entry in entries] for field, entries in fields.items()}


def _candidates(block: bool) -> dict[str, list[int]]:
    method = next(each for each in Method if (TRAITS[each].kind is Kind.BLOCK) is block)
    return {str(k): list(default_candidates(method, k)) for k in range(1, MAX_K + 1)}


def _denied() -> str:
    """A pattern for flags, with dashes or with underscores as vLLM takes both."""
    long = "|".join(flag.replace("-", "[-_]").replace(".", "[.]") for flag in DENIED)
    return f"^-(-({long})|({'|'.join(_SHORT)})(=|$))"


def render() -> str:
    """The text of the file."""
    found = dict(accepted())
    assert all(has_table(pod) or _has_variable(pod) for pod in found.values())
    table = next(pod for pod in found.values() if has_table(pod))
    variable = next(pod for pod in found.values() if not has_table(pod))
    variables = {one["name"] for pod in (table, variable) for one in pod["containers"][0]["env"]}
    blocks = [each for each in Method if TRAITS[each].kind is Kind.BLOCK]
    content = {
        "maxK": MAX_K,
        "leastBatch": LEAST_BATCH,
        "keys": KEYS,
        "deniedFlags": _denied(),
        "variables": sorted(variables),
        "volumes": [one["name"] for one in table["volumes"]],
        "defaultBatch": SMALLEST_DEFAULT_BATCH,
        "withTable": [str(engine) for engine, pod in found.items() if has_table(pod)],
        "withVariable": [str(engine) for engine, pod in found.items() if not has_table(pod)],
        "blocks": [str(each) for each in blocks],
        "candidates": {"block": _candidates(block=True), "other": _candidates(block=False)},
        "partsWithTable": _parts(table),
        "partsWithVariable": _parts(variable),
    }
    return json.dumps(content, indent=1) + "\n"


if __name__ == "__main__":
    write_or_print("charts.injection", FILE_NAME, render)
