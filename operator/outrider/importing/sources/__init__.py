"""The kinds of sources, and the one registry of them."""

from outrider.importing.sources.kserve import INFERENCE_SERVICE, LLM_INFERENCE_SERVICE
from outrider.importing.sources.kubeai import KUBEAI
from outrider.importing.sources.production_stack import PRODUCTION_STACK
from outrider.importing.sources.source import Source
from outrider.importing.sources.workloads import DEPLOYMENT, LEADER_WORKER_SET, STATEFUL_SET

SOURCES: tuple[Source, ...] = (
    DEPLOYMENT,
    STATEFUL_SET,
    LEADER_WORKER_SET,
    INFERENCE_SERVICE,
    LLM_INFERENCE_SERVICE,
    KUBEAI,
    PRODUCTION_STACK,
)
"""Every kind that `outrider import` reads, beside a command line."""

__all__ = ["SOURCES", "Source"]
