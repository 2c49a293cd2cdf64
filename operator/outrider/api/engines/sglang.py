"""SGLang at admission. Source of the flags: ``sglang/srt/arg_groups`` of the supported releases."""

from __future__ import annotations

from outrider.api.engines.admission import Admission
from outrider_protocol.methods import TRAITS, Kind, Method
from outrider_protocol.sglang_releases import ADAPTIVE_SINCE, ALGORITHMS, RELEASES

_PLAIN = "leave it out; probes and the control API speak plain HTTP: end TLS before the Service"
_NODES = "set spec.parallelism.nodes"
_EXPERTS = "set spec.parallelism.expert"
_LENGTH = "set spec.speculation.numSpeculativeTokens"
_CANDIDATES = "set spec.speculation.candidates; Outrider writes the adaptive configuration from them"
_LOSSY = "leave it out; below 1 the drafter changes what the model says"
_KEY = "set it from a Secret in spec.podTemplate; a flag would show the key"
_HTTP = "leave it out; probes, clients and the control API speak HTTP"
_SAME_SIZE = tuple(method for method in ALGORITHMS if method not in ADAPTIVE_SINCE)

ADMISSION = Admission(
    releases=f"{RELEASES[0]} to {RELEASES[-1]}",
    version="0[.]5[.]",
    # Such as lmsysorg/sglang, nvcr.io/nvidia/sglang, rocm/sgl-dev.
    stock_image="(.*/)?(lmsysorg/sglang|nvidia/sglang|rocm/sgl-dev)(:[^/]*)?(@sha256:[0-9a-f]+)?",
    owned_flags={
        "model-path": "set spec.model.uri",
        "model": "set spec.model.uri",
        "revision": "set spec.model.revision",
        "served-model-name": "set spec.model.servedName",
        "context-length": "set spec.model.maxLength",
        "host": "leave it out; the engine listens on all addresses of its pod",
        "port": "set spec.engine.port",
        "config": "write the flags into spec.engine.args, where they are checked",
        "speculative-algorithm": "set spec.speculation.method",
        "speculative-draft-model-path": "set spec.speculation.drafter.uri",
        "speculative-draft-model": "set spec.speculation.drafter.uri",
        "speculative-draft-model-revision": "set spec.speculation.drafter.revision",
        "speculative-num-steps": _LENGTH,
        "speculative-num-draft-tokens": _LENGTH,
        "speculative-eagle-topk": "leave it out; K changes in a running engine with chains alone",
        "speculative-dflash-block-size": _LENGTH,
        "speculative-dspark-block-size": _LENGTH,
        "speculative-adaptive": _CANDIDATES,
        "speculative-adaptive-config": _CANDIDATES,
        "speculative-accept-threshold-single": _LOSSY,
        "speculative-accept-threshold-acc": _LOSSY,
        "tensor-parallel-size": "set spec.parallelism.tensor",
        "tp-size": "set spec.parallelism.tensor",
        "tp": "set spec.parallelism.tensor",
        "pipeline-parallel-size": "set spec.parallelism.pipeline",
        "pp-size": "set spec.parallelism.pipeline",
        "pp": "set spec.parallelism.pipeline",
        "data-parallel-size": "set spec.parallelism.data",
        "dp-size": "set spec.parallelism.data",
        "dp": "set spec.parallelism.data",
        "expert-parallel-size": _EXPERTS,
        "ep-size": _EXPERTS,
        "ep": _EXPERTS,
        "nnodes": _NODES,
        "node-rank": _NODES,
        "dist-init-addr": _NODES,
        "nccl-init-addr": _NODES,
        "use-ray": "leave it out; SGLang's own processes join the nodes of a replica",
        "grpc-mode": _HTTP,
        "smg-grpc-mode": _HTTP,
        "encoder-only": "leave it out; such an engine generates no tokens",
        "api-key": _KEY,
        "admin-api-key": _KEY,
        "ssl-keyfile": _PLAIN,
        "ssl-certfile": _PLAIN,
        "enable-metrics": "leave it out; Outrider sets it, because tuning reads the engine's metrics",
        "enable-metrics-for-all-schedulers": "leave it out; Outrider would count each step once per GPU",
        "fastapi-root-path": "leave it out; probes and the control API use the root path",
    },
    switches=frozenset(
        {
            "speculative-adaptive",
            "use-ray",
            "grpc-mode",
            "smg-grpc-mode",
            "encoder-only",
            "enable-metrics",
            "enable-metrics-for-all-schedulers",
            "enable-dp-attention",
            "enable-multi-layer-eagle",
            "enable-two-batch-overlap",
            "enable-pdmux",
            "is-embedding",
        }
    ),
    generating={"is-embedding": (False,)},
    features=frozenset(),
    methods=(Method.NONE, *ALGORITHMS),
    relaunched=tuple(method for method in _SAME_SIZE if TRAITS[method].kind is not Kind.BLOCK),
    static=tuple(method for method in _SAME_SIZE if TRAITS[method].kind is Kind.BLOCK),
    # Source: `adaptive_unsupported_reason`, which turns the adaptive mode off with a warning.
    fixed_by=(
        "enable-dp-attention",
        "enable-multi-layer-eagle",
        "enable-two-batch-overlap",
        "enable-pdmux",
    ),
)
