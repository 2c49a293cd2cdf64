"""vLLM at admission."""

from __future__ import annotations

from outrider.api.engines.admission import Admission, Feature
from outrider_protocol.methods import Method
from outrider_protocol.releases import RELEASES

_PLAIN = "leave it out; probes and the control API speak plain HTTP: end TLS before the Service"

ADMISSION = Admission(
    releases=f"{RELEASES[0]} to {RELEASES[-1]}",
    # The runtime says in its status which releases it does not serve.
    version="",
    # Such as vllm/vllm-openai, public.ecr.aws/…/vllm-cpu-release-repo, rocm/vllm, nvcr.io/nvidia/vllm.
    stock_image=(
        "(.*/)?(vllm/vllm-[a-z0-9-]+|vllm-[a-z0-9-]*release-repo|rocm/vllm(-dev)?|nvidia/vllm)"
        "(:[^/]*)?(@sha256:[0-9a-f]+)?"
    ),
    owned_flags={
        "model": "set spec.model.uri",
        "revision": "set spec.model.revision",
        "served-model-name": "set spec.model.servedName, and servedAliases for more names",
        "max-model-len": "set spec.model.maxLength, which takes 160K and auto, too",
        "host": "leave it out; the engine listens on all addresses of its pod",
        "port": "set spec.engine.port",
        "uds": "leave it out; the engine is reached over TCP",
        "config": "write the flags into spec.engine.args, where they are checked",
        "speculative-config": "set spec.speculation",
        "sc": "set spec.speculation",
        "spec-method": "set spec.speculation.method",
        "spec-model": "set spec.speculation.drafter.uri",
        "spec-tokens": "set spec.speculation.numSpeculativeTokens",
        "tensor-parallel-size": "set spec.parallelism.tensor",
        "tp": "set spec.parallelism.tensor",
        "pipeline-parallel-size": "set spec.parallelism.pipeline",
        "pp": "set spec.parallelism.pipeline",
        "data-parallel-size": "set spec.parallelism.data",
        "dp": "set spec.parallelism.data",
        "enable-expert-parallel": "set spec.parallelism.expert",
        "ep": "set spec.parallelism.expert",
        "nnodes": "set spec.parallelism.nodes",
        "node-rank": "set spec.parallelism.nodes",
        "master-addr": "set spec.parallelism.nodes",
        "master-port": "set spec.parallelism.nodes",
        "headless": "leave it out; leaders answer requests, and workers of several nodes get it",
        "grpc": "leave it out; probes, clients and the control API speak HTTP",
        "hf-token": "set spec.model.secretRef; a flag would show the token to everyone who may read pods",
        "api-key": "set VLLM_API_KEY from a Secret in spec.podTemplate; a flag would show the key",
        "ssl-keyfile": _PLAIN,
        "ssl-certfile": _PLAIN,
        "disable-log-stats": "leave it out; tuning reads the engine's metrics",
        "root-path": "leave it out; probes and the control API use the root path",
    },
    switches=frozenset({"enable-expert-parallel", "headless", "grpc", "disable-log-stats"}),
    generating={
        "runner": ("auto", "generate", "draft"),
        "convert": ("auto", "none"),
        "task": ("auto", "generate", "transcription", "draft"),
    },
    features=frozenset(Feature),
    methods=tuple(Method),
)
