"""The one form of every source: a pod with a vLLM container, and what lies around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from outrider.api.json_object import Json
from outrider.importing.findings import Findings, ImportRefused, NoEngine
from outrider.importing.holders import CONTAINER, Holder


@dataclass(frozen=True, slots=True)
class Workload:
    """One vLLM engine as a source describes it.

    ``pod`` is a PodSpec in the form of Kubernetes; sources of other forms are translated into it.
    """

    kind: str
    name: str
    pod: Json
    findings: Findings = field(default_factory=Findings)
    namespace: str | None = None
    labels: Mapping[str, JsonValue] = field(default_factory=dict)  # of the pods
    selected_by: Mapping[str, JsonValue] = field(default_factory=dict)  # labels that new pods must not have
    annotations: Mapping[str, JsonValue] = field(default_factory=dict)  # of the pods
    replicas: int = 1
    nodes: int = 1  # pods per replica
    uri: str | None = None  # of the weights, if the source has it outside of vLLM's flags
    served_name: str | None = None  # the model's name for clients, if the source has it outside of the flags
    container: str | None = None  # of the engine, if the source fixes its name
    claims: Mapping[str, Json] = field(default_factory=dict)  # of each pod: name -> PersistentVolumeClaimSpec
    rollout: Json = field(default_factory=dict)  # `spec.rollout` of the SpeculativeModel
    holder: Holder = CONTAINER  # of the command, for messages
    in_cluster: bool = True  # an object of a cluster, whose children have its name


def names(words: str) -> frozenset[str]:
    """A set of names out of a text, where blanks separate them."""
    return frozenset(words.split())


def an_object(value: object) -> Json:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[Json]:
    """The objects of a list; empty for anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text(value: object) -> str | None:
    """A text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None


def whole(value: object) -> int | None:
    """A whole number, written as a number or as digits; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def words_in(value: object) -> list[str]:
    """The items of a list as text; empty for anything else."""
    return [str(each) for each in value] if isinstance(value, list) else []


def engine_container(workload: Workload, named: str | None) -> Json:
    """The container that runs an engine. named: by the user.

    Raises:
        ImportRefused: there is none, or more than one may be it.
    """
    containers = objects(workload.pod.get("containers"))
    wanted = named or workload.container
    names = ", ".join(text(each.get("name")) or "?" for each in containers) or "none"
    if wanted is not None:
        found = [each for each in containers if each.get("name") == wanted]
        if named is not None and not found:
            raise ImportRefused(f"there is no container {named}; its containers: {names}")
        if len(found) == 1:
            return found[0]
    likely = [each for each in containers if _runs_an_engine(each)]
    if len(likely) == 1:
        return likely[0]
    if len(containers) == 1 and _has_flags(containers[0]):
        return containers[0]
    if not likely:
        raise NoEngine(
            "no container runs vLLM or SGLang; name the one that does with --container. Its containers: "
            f"{names}"
        )
    raise ImportRefused(
        f"more than one container may run an engine; name one with --container. Its containers: {names}"
    )


def words_of(container: Json, field: str) -> list[str]:
    """``command`` or ``args`` as words.

    Raises:
        ImportRefused: it is something else.
    """
    value = container.get(field) or []
    if not isinstance(value, list) or not all(isinstance(each, str | int | float) for each in value):
        raise ImportRefused(f"{field} of the container must be a list of texts; write one text for each word")
    return [str(each).lower() if isinstance(each, bool) else str(each) for each in value]


_ENGINES = ("vllm", "sglang")


def _runs_an_engine(container: Json) -> bool:
    image = (text(container.get("image")) or "").lower()
    words = [word for field in ("command", "args") for word in words_in(container.get(field))]
    programs = ("vllm serve", "vllm.entrypoints", "sglang serve", "sglang.launch_server")
    return any(name in image for name in _ENGINES) or any(
        word in _ENGINES or any(program in word for program in programs) for word in words
    )


def _has_flags(container: Json) -> bool:
    words = words_in(container.get("args"))
    return any(word.partition("=")[0] in ("--model", "--model-path", "--served-model-name") for word in words)
