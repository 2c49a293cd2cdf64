"""From what runs vLLM today to a SpeculativeModel. Pure: texts in, texts out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outrider.api.json_object import Json
from outrider.importing.conversion import Imported, Options, convert, text_of
from outrider.importing.documents import documents
from outrider.importing.findings import Finding, ImportRefused, NoEngine, Outcome
from outrider.importing.sources import SOURCES
from outrider.importing.sources.source import Source
from outrider.importing.sources.workloads import of_command_line
from outrider.importing.workload import an_object, names, text

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

_COMPANION = "it runs no engine; Outrider makes what its engines need, and leaves this object as it is"
_UNKNOWN = (
    "Outrider does not import this kind; it imports: {}, and a command line. "
    "Pass the vLLM command line of this object: outrider import -- vllm serve MODEL --flag value"
)


@dataclass(frozen=True, slots=True)
class Refused:
    """An object that became no SpeculativeModel."""

    what: str
    why: str
    runs_engines: bool  # it may run vLLM, so the import is not complete without it


def import_text(content: str, options: Options) -> Iterator[Imported | Refused]:
    """The SpeculativeModels of a YAML or JSON text, and what of it became none.

    Raises:
        ImportRefused: the text cannot be read at all.
    """
    for document in documents(content):
        source = next((each for each in SOURCES if each.takes(document)), None)
        if source is not None:
            yield from _from(source, document, options)
        elif document.get("kind") in _KINDS:
            yield Refused(_name_of(document), _COMPANION, runs_engines=False)
        else:
            kinds = ", ".join(each.name for each in SOURCES)
            yield Refused(_name_of(document), _UNKNOWN.format(kinds), runs_engines=True)


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


_KINDS = names(
    """
    Service ConfigMap Secret Ingress HTTPRoute PersistentVolumeClaim PersistentVolume Namespace ServiceAccount
    Role RoleBinding ClusterRole ClusterRoleBinding HorizontalPodAutoscaler PodDisruptionBudget NetworkPolicy
    ServiceMonitor PodMonitor ScaledObject StorageClass Gateway ServingRuntime ClusterServingRuntime
    InferencePool ResourceClaimTemplate PriorityClass ResourceQuota LLMInferenceServiceConfig Kustomization
    DestinationRule VirtualService Route InferenceModel
    """
)
"""Kinds of objects that stand beside engines, and run none."""


def _name_of(document: Json) -> str:
    name = text(an_object(document.get("metadata")).get("name")) or ""
    kind = text(document.get("kind")) or "an object without a kind"
    return f"{kind} {name}".strip()
