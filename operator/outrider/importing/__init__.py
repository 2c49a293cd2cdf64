"""From what runs vLLM today to a SpeculativeModel. Pure: texts in, texts out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outrider.importing.conversion import Imported, Options, convert
from outrider.importing.documents import documents
from outrider.importing.findings import Finding, ImportRefused, NoEngine, Outcome
from outrider.importing.sources import SOURCES
from outrider.importing.sources.command_line import of_command_line
from outrider.importing.sources.source import Source
from outrider.importing.text import text_of
from outrider.importing.workload import an_object, text
from outrider.plan.overlay import Json

__all__ = [
    "Finding",
    "ImportRefused",
    "Imported",
    "Options",
    "Outcome",
    "Refused",
    "import_command",
    "import_text",
    "text_of",
]

_COMPANIONS = "it runs no engine; Outrider makes what its engines need, and leaves this object as it is"


@dataclass(frozen=True, slots=True)
class Refused:
    """An object that became no SpeculativeModel."""

    what: str
    why: str
    runs_engines: bool
    """It may run vLLM, so the import is not complete without it."""


def import_text(content: str, options: Options) -> Iterator[Imported | Refused]:
    """The SpeculativeModels of a YAML or JSON text, and what of it became none.

    Raises:
        ImportRefused: the text cannot be read at all.
    """
    for document in documents(content):
        source = next((each for each in SOURCES if each.takes(document)), None)
        if source is None:
            yield Refused(
                _name_of(document), _why_unknown(document), runs_engines=not _is_companion(document)
            )
            continue
        yield from _from(source, document, options)


def import_command(words: Sequence[str], options: Options) -> Imported:
    """The SpeculativeModel of a command line.

    Raises:
        ImportRefused: it starts no vLLM server, or cannot be read.
    """
    return convert(of_command_line(words), options)


def _from(source: Source, document: Json, options: Options) -> Iterator[Imported | Refused]:
    name = _name_of(document)
    try:
        workloads = list(source.workloads(document))
    except ImportRefused as refused:
        yield Refused(name, str(refused), runs_engines=True)
        return
    for workload in workloads:
        try:
            yield convert(workload, options)
        except ImportRefused as refused:
            runs = not isinstance(refused, NoEngine)
            yield Refused(f"{workload.kind} {workload.name}", str(refused), runs_engines=runs)


_KINDS = frozenset(
    {
        "Service",
        "ConfigMap",
        "Secret",
        "Ingress",
        "HTTPRoute",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "Namespace",
    }
    | {
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "HorizontalPodAutoscaler",
    }
    | {
        "PodDisruptionBudget",
        "NetworkPolicy",
        "ServiceMonitor",
        "PodMonitor",
        "ScaledObject",
        "StorageClass",
        "Gateway",
    }
    | {
        "ServingRuntime",
        "ClusterServingRuntime",
        "InferencePool",
        "ResourceClaimTemplate",
        "PriorityClass",
        "ResourceQuota",
    }
    | {
        "LLMInferenceServiceConfig",
        "Kustomization",
        "DestinationRule",
        "VirtualService",
        "Route",
        "InferenceModel",
    }
)


def _is_companion(document: Json) -> bool:
    return document.get("kind") in _KINDS


def _why_unknown(document: Json) -> str:
    if _is_companion(document):
        return _COMPANIONS
    kinds = ", ".join(source.name for source in SOURCES)
    return (
        f"Outrider does not import this kind; it imports: {kinds}, and a command line. "
        "Pass the vLLM command line of this object: outrider import -- vllm serve MODEL --flag value"
    )


def _name_of(document: Json) -> str:
    name = text(an_object(document.get("metadata")).get("name")) or ""
    kind = text(document.get("kind")) or "an object without a kind"
    return f"{kind} {name}".strip()
