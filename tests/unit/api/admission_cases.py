"""What admission accepts and refuses: one list for the models and for a real API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, object]


def base_manifest() -> Json:
    """A complete object that is accepted; each case changes a little of it."""
    return {
        "apiVersion": "outrider.dev/v1alpha1",
        "kind": "SpeculativeModel",
        "metadata": {"name": "qwen", "namespace": "default"},
        "spec": {
            "model": {"uri": "hf://Qwen/Qwen3-8B"},
            "speculation": {
                "method": "eagle3",
                "drafter": {"uri": "hf://RedHatAI/Qwen3-8B-speculator.eagle3"},
                "numSpeculativeTokens": 5,
            },
        },
    }


@dataclass(frozen=True)
class AdmissionCase:
    """A change of `base_manifest` and what admission says to it."""

    name: str
    patch: Mapping[str, object]
    """JSON merge patch on the whole object; None deletes."""
    refused: str | None = None
    """A part of the message that names the field; None when the object is accepted."""
    manifest: Json = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "manifest", merge_patch(base_manifest(), self.patch))


def merge_patch(base: Mapping[str, object], patch: Mapping[str, object]) -> Json:
    """A JSON merge patch; None deletes."""
    merged = dict(base)
    for key, value in patch.items():
        before = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = merge_patch(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _spec(name: str, refused: str | None = None, **fields: object) -> AdmissionCase:
    return AdmissionCase(name, {"spec": fields}, refused)


def _speculation(name: str, refused: str | None = None, **fields: object) -> AdmissionCase:
    return AdmissionCase(name, {"spec": {"speculation": fields}}, refused)


def _adaptive(name: str, refused: str | None = None, **fields: object) -> AdmissionCase:
    return _speculation(name, refused, **{"verification": "Adaptive", "tuning": {"mode": "Off"}, **fields})


def _tuning(name: str, refused: str | None = None, **fields: object) -> AdmissionCase:
    return AdmissionCase(name, {"spec": {"speculation": {"tuning": fields}}}, refused)


def _args(name: str, refused: str | None = None, **fields: object) -> AdmissionCase:
    flags = {flag.replace("__", "-"): value for flag, value in fields.items()}
    return AdmissionCase(name, {"spec": {"engine": {"args": flags}}}, refused)


def _named(name: str, refused: str | None, *, metadata_name: str) -> AdmissionCase:
    return AdmissionCase(name, {"metadata": {"name": metadata_name}}, refused)


def _row(k: int, limit: int | None = None) -> Json:
    return (
        {"numSpeculativeTokens": k} if limit is None else {"maxBatchSize": limit, "numSpeculativeTokens": k}
    )


NAMES = (
    _named("the longest name", None, metadata_name="a" * 52),
    _named("a name that is too long", "write at most 52 lower-case", metadata_name="a" * 53),
    _named("a name that starts with a digit", "write at most 52 lower-case", metadata_name="8b"),
    _named("a name with a dot", "write at most 52 lower-case", metadata_name="qwen3.5"),
)

MODELS = (
    _spec("the smallest object"),
    _spec("no model", "spec.model", model=None),
    _spec("no word on speculation", "spec.speculation", speculation=None),
    _spec("a path without scheme", "spec.model.uri", model={"uri": "/models/x"}),
    _spec("an unknown scheme", "spec.model.uri", model={"uri": "gs://bucket/x"}),
    _spec("a bucket", model={"uri": "s3://models/qwen3-8b"}, cache={"size": "200Gi"}),
    _spec("a whole bucket", model={"uri": "s3://models"}, cache={"claim": "weights"}),
    _spec("a bucket without a cache", "spec.cache: weights of s3://", model={"uri": "s3://models/qwen3-8b"}),
    _spec("a bucket of no name", "s3:// takes a bucket", model={"uri": "s3:///qwen3-8b"}),
    _spec("a way out of a bucket", "s3:// takes a bucket", model={"uri": "s3://models/../x"}),
    _spec("a pinned bucket", model={"uri": "s3://models/x", "revision": "0a1b"}, cache={"size": "1Gi"}),
    _spec("an image", model={"uri": "oci://ghcr.io/organisation/qwen3-8b:1"}),
    _spec("a folder in an image", model={"uri": "oci://registry:5000/qwen3-8b:1#models/8b"}),
    _spec("an image by digest", model={"uri": f"oci://ghcr.io/a/b@sha256:{'0' * 64}"}),
    _spec("an image by tag and digest", model={"uri": f"oci://ghcr.io/a/b:1@sha256:{'0' * 64}#models"}),
    _spec(
        "an image without tag", "with its registry and a tag or digest", model={"uri": "oci://ghcr.io/a/b"}
    ),
    _spec("an image without registry", "oci:// takes an image", model={"uri": "oci://qwen3-8b:1"}),
    _spec("a way out of an image", "oci:// takes an image", model={"uri": "oci://ghcr.io/a/b:1#../etc"}),
    _spec(
        "a revision of an image",
        "spec.model.revision applies to hf:// and s3:// only",
        model={"uri": "oci://ghcr.io/a/b:1", "revision": "main"},
    ),
    _spec(
        "the address of a web page",
        "has no scheme that Outrider knows",
        model={"uri": "https://huggingface.co/Qwen/Qwen3-8B"},
    ),
    _spec("a bare name", "has no scheme that Outrider knows", model={"uri": "Qwen/Qwen3-8B"}),
    _spec("a name without organisation", "such as hf://Qwen/Qwen3-8B", model={"uri": "hf://Qwen3-8B"}),
    _spec("a file of a model", "such as hf://Qwen/Qwen3-8B", model={"uri": "hf://Qwen/Qwen3-8B/x.bin"}),
    _spec("a claim in capitals", "such as pvc://models/qwen3-8b", model={"uri": "pvc://Models/x"}),
    _spec("a relative path", "such as file:///models/qwen3-8b", model={"uri": "file://models/x"}),
    _spec(
        "a name that goes on in another line", "write hf://", model={"uri": "https://a\nhf://Qwen/Qwen3-8B"}
    ),
    _spec("a claim", model={"uri": "pvc://models/qwen"}),
    _spec("a whole claim", model={"uri": "pvc://models"}),
    _spec("a local folder", model={"uri": "file:///models/qwen"}),
    _spec("a pinned revision", model={"revision": "0a1b2c3", "servedName": "q", "maxLength": 8192}),
    _spec(
        "a revision of a local folder",
        "spec.model.revision applies to hf:// and s3:// only",
        model={"uri": "file:///models/x", "revision": "main"},
    ),
    _spec("a context of 160K", model={"maxLength": "160K"}),
    _spec("a context of 25.6k", model={"maxLength": "25.6k"}),
    _spec("the context that fits", model={"maxLength": "auto"}),
    _spec("a context in words", "spec.model.maxLength", model={"maxLength": "long"}),
    _spec("several names", model={"servedName": "a", "servedAliases": ["b", "org/c"]}),
    _spec("several names in one text", "spec.model.servedName", model={"servedName": "a b"}),
    _spec("an alias with a comma", "spec.model.servedAliases", model={"servedAliases": ["b,c"]}),
    _spec("a name twice", "name each once", model={"servedName": "a", "servedAliases": ["a"]}),
    _spec("no context", "spec.model.maxLength", model={"maxLength": 0}),
    _spec("a token", model={"secretRef": {"name": "hf-token"}}),
    _spec(
        "a token for the drafter alone",
        model={"uri": "pvc://models/qwen", "secretRef": {"name": "hf-token", "key": "HF_TOKEN"}},
    ),
    AdmissionCase(
        "a token for an adapter alone",
        {
            "spec": {
                "model": {"uri": "pvc://models/qwen", "secretRef": {"name": "hf-token"}},
                "speculation": {"drafter": {"uri": "pvc://models/drafter"}},
                "engine": {"loraAdapters": [{"name": "support", "uri": "hf://org/support"}]},
            }
        },
    ),
    AdmissionCase(
        "a token that nothing uses",
        {
            "spec": {
                "model": {"uri": "pvc://models/qwen", "secretRef": {"name": "hf-token"}},
                "speculation": {"drafter": {"uri": "pvc://models/drafter"}},
            }
        },
        "spec.model.secretRef is the token for hf://",
    ),
    _spec("an unknown field", "spec.modle", modle={"uri": "hf://a/b"}),
)

METHODS = (
    _speculation("an unknown method", "spec.speculation.method", method="lookahead"),
    *(_speculation(f"method {name}", method=name) for name in ("draft_model", "eagle", "eagle3")),
    *(
        _speculation(
            f"method {name} with tuning",
            "spec.speculation.tuning.mode: vLLM cannot change K of method",
            method=name,
        )
        for name in ("p_eagle", "pard")
    ),
    _speculation("method dflash", method="dflash"),
    _speculation("method mtp with a drafter", method="mtp"),
    _speculation("method mtp without drafter", method="mtp", drafter=None),
    _speculation("method ngram", method="ngram", drafter=None),
    _speculation(
        "method mlp_speculator",
        "; use another method",
        method="mlp_speculator",
    ),
    _speculation(
        "method custom_class",
        "; use another method",
        method="custom_class",
        drafter=None,
    ),
    _speculation(
        "a missing drafter", "spec.speculation.drafter: method eagle3 needs a drafter", drafter=None
    ),
    _speculation(
        "a drafter for ngram", "spec.speculation.drafter: method ngram uses no drafter", method="ngram"
    ),
    _speculation("a drafter in a bucket", "spec.cache: weights of s3://", drafter={"uri": "s3://models/d"}),
    _speculation(
        "a bare name of a drafter", "has no scheme that Outrider knows", drafter={"uri": "yuhuili/EAGLE"}
    ),
    _speculation("a pinned drafter", drafter={"revision": "0a1b2c3"}),
    _speculation(
        "a revision of a local drafter",
        "spec.speculation.drafter.revision applies to hf:// and s3:// only",
        drafter={"uri": "pvc://models/drafter", "revision": "main"},
    ),
    _speculation("no speculation", method="none", drafter=None, numSpeculativeTokens=None),
    _speculation(
        "no speculation, tuning off",
        method="none",
        drafter=None,
        numSpeculativeTokens=None,
        tuning={"mode": "Off"},
    ),
    _speculation(
        "draft tokens without speculation", "method none drafts nothing", method="none", drafter=None
    ),
    _speculation(
        "tuning without speculation",
        "method none drafts nothing",
        method="none",
        drafter=None,
        numSpeculativeTokens=None,
        tuning={"mode": "Auto"},
    ),
    _speculation("suffix with tuning off", method="suffix", drafter=None, tuning={"mode": "Off"}),
    _speculation(
        "suffix that is tuned",
        "spec.speculation.tuning.mode: vLLM cannot change K of method suffix",
        method="suffix",
        drafter=None,
    ),
    _speculation(
        "suffix with candidates",
        "with method suffix an engine keeps one K",
        method="suffix",
        drafter=None,
        candidates=[3, 5],
        tuning={"mode": "Off"},
    ),
    _speculation(
        "suffix with a table",
        "with method suffix an engine keeps one K",
        method="suffix",
        drafter=None,
        schedule=[_row(5, 8), _row(0)],
        tuning={"mode": "Off"},
    ),
    _speculation(
        "suffix with its K",
        method="suffix",
        drafter=None,
        candidates=[5],
        schedule=[_row(5)],
        tuning={"mode": "Off"},
    ),
    _speculation(
        "suffix without K", method="suffix", drafter=None, numSpeculativeTokens=None, tuning={"mode": "Off"}
    ),
    _speculation("dspark without K", method="dspark", numSpeculativeTokens=None, tuning={"mode": "Off"}),
    _speculation(
        "dspark of the target without K",
        "set the length of the block",
        method="dspark",
        drafter=None,
        numSpeculativeTokens=None,
        tuning={"mode": "Off"},
    ),
    _speculation(
        "dflash without K", "set the length of the block", method="dflash", numSpeculativeTokens=None
    ),
    _speculation(
        "suffix without K and with candidates",
        "with method suffix an engine keeps one K",
        method="suffix",
        drafter=None,
        numSpeculativeTokens=None,
        candidates=[5],
        tuning={"mode": "Off"},
    ),
    _speculation("n-gram on the GPU", method="ngram_gpu", drafter=None, tuning={"mode": "Off"}),
    _speculation("n-gram on the GPU, tuned", method="ngram_gpu", drafter=None),
    _speculation("dspark, tuned", method="dspark"),
    _speculation(
        "dflash with its default candidates", method="dflash", schedule=[_row(5, 4), _row(2, 32), _row(0)]
    ),
    _speculation(
        "dspark without K, tuned",
        "K of method dspark changes up to the length of its block",
        method="dspark",
        numSpeculativeTokens=None,
    ),
    _speculation(
        "dspark without K, with candidates",
        "K of method dspark changes up to the length of its block",
        method="dspark",
        numSpeculativeTokens=None,
        candidates=[5],
        tuning={"mode": "Off"},
    ),
    _speculation("another name of mtp", "spec.speculation.method", method="deepseek_mtp"),
    _speculation("medusa with tuning off", method="medusa", tuning={"mode": "Off"}),
    _speculation("dspark without drafter", method="dspark", drafter=None, tuning={"mode": "Off"}),
)

DRAFT_LENGTHS = (
    _speculation(
        "no ceiling",
        "spec.speculation.numSpeculativeTokens: method eagle3 needs it",
        numSpeculativeTokens=None,
    ),
    _speculation("a ceiling of zero", "spec.speculation.numSpeculativeTokens", numSpeculativeTokens=0),
    _speculation(
        "a ceiling above the limit", "spec.speculation.numSpeculativeTokens", numSpeculativeTokens=33
    ),
    _speculation("a ceiling in words", "spec.speculation.numSpeculativeTokens", numSpeculativeTokens="five"),
    _speculation("candidates", candidates=[0, 1, 3, 5]),
    _speculation("no candidates at all", "spec.speculation.candidates", candidates=[]),
    _speculation("too many candidates", "spec.speculation.candidates", candidates=list(range(9))),
    _speculation(
        "falling candidates", "does not rise; write each value once, the smallest first", candidates=[0, 5, 3]
    ),
    _speculation(
        "repeated candidates",
        "does not rise; write each value once, the smallest first",
        candidates=[0, 3, 3, 5],
    ),
    _speculation(
        "a candidate above the ceiling",
        "spec.speculation.candidates: [0, 5, 7] exceeds numSpeculativeTokens, which is 5",
        candidates=[0, 5, 7],
    ),
    _speculation(
        "candidates without the ceiling",
        "[0, 3] lacks numSpeculativeTokens, the largest K, which is 5; add it",
        candidates=[0, 3],
    ),
    _speculation("candidates without zero", "spec.speculation.candidates: [1, 5] lacks 0", candidates=[1, 5]),
    _speculation("candidates without zero, tuning off", candidates=[1, 5], tuning={"mode": "Off"}),
    _speculation("one row", schedule=[_row(3)]),
    _speculation("three rows", schedule=[_row(3, 8), _row(1, 32), _row(0)]),
    _speculation("no rows", "spec.speculation.schedule", schedule=[]),
    _speculation(
        "a closed last row",
        "spec.speculation.schedule: the last row, and only the last",
        schedule=[_row(3, 8)],
    ),
    _speculation(
        "an open row in the middle",
        "spec.speculation.schedule: the last row, and only the last",
        schedule=[_row(3), _row(1, 8), _row(0)],
    ),
    _speculation(
        "two equal open rows",
        "spec.speculation.schedule: the last row, and only the last",
        schedule=[_row(0), _row(0)],
    ),
    _speculation(
        "falling rows",
        "spec.speculation.schedule: maxBatchSize does not rise",
        schedule=[_row(3, 32), _row(1, 8), _row(0)],
    ),
    _speculation(
        "a repeated batch size",
        "spec.speculation.schedule: maxBatchSize does not rise",
        schedule=[_row(3, 8), _row(1, 8), _row(0)],
    ),
    _speculation("a batch size of zero", "spec.speculation.schedule", schedule=[_row(3, 0), _row(0)]),
    _speculation("a K outside the default candidates", "is not one of candidates", schedule=[_row(4)]),
    _speculation(
        "a K outside the candidates", "is not one of candidates", candidates=[0, 5], schedule=[_row(3)]
    ),
    _speculation("a K inside the candidates", candidates=[0, 4, 5], schedule=[_row(4)]),
    _speculation(
        "a K above the ceiling", "is not one of candidates", numSpeculativeTokens=1, schedule=[_row(2)]
    ),
    _speculation("a small ceiling", numSpeculativeTokens=1, schedule=[_row(1, 4), _row(0)]),
    _speculation("half of an even ceiling", numSpeculativeTokens=8, schedule=[_row(4, 4), _row(0)]),
)

TUNING = (
    *(_tuning(f"mode {mode}", mode=mode) for mode in ("Off", "Observe", "Auto")),
    _tuning("an unknown mode", "spec.speculation.tuning.mode", mode="On"),
    _tuning("latency", objective="Latency"),
    _tuning("an unknown objective", "spec.speculation.tuning.objective", objective="Cost"),
    _tuning(
        "latency without a tuner",
        "spec.speculation.tuning.objective: mode Off chooses no K",
        objective="Latency",
        mode="Off",
    ),
    _tuning("a target of the pause", slo={"interTokenLatency": {"limit": "30ms"}}),
    _tuning(
        "two targets",
        slo={
            "interTokenLatency": {"percentile": 99, "limit": "1ms"},
            "timeToFirstToken": {"percentile": 50, "limit": "10m"},
        },
        objective="Latency",
    ),
    _tuning("targets that are only watched", slo={"timeToFirstToken": {"limit": "2s"}}, mode="Observe"),
    _tuning("targets of stock engines", slo={"timeToFirstToken": {"limit": "2s"}}, actuation="Rollout"),
    _tuning("an SLO without a target", "spec.speculation.tuning.slo has no target", slo={}),
    _tuning(
        "targets without a tuner",
        "spec.speculation.tuning.slo: mode Off measures nothing",
        slo={"timeToFirstToken": {"limit": "2s"}},
        mode="Off",
    ),
    _tuning(
        "a target without a limit",
        "spec.speculation.tuning.slo.interTokenLatency.limit",
        slo={"interTokenLatency": {"percentile": 90}},
    ),
    _tuning(
        "a limit of nothing", "is too short; write at least 1ms", slo={"interTokenLatency": {"limit": "0s"}}
    ),
    _tuning(
        "a limit of an hour", "is too long; write at most 10m", slo={"timeToFirstToken": {"limit": "1h"}}
    ),
    _tuning(
        "a limit without unit", "write a duration such as 30s", slo={"interTokenLatency": {"limit": "30"}}
    ),
    _tuning(
        "a target as a duration",
        "spec.speculation.tuning.slo.interTokenLatency",
        slo={"interTokenLatency": "30ms"},
    ),
    _tuning(
        "the best request",
        "spec.speculation.tuning.slo.interTokenLatency.percentile",
        slo={"interTokenLatency": {"percentile": 10, "limit": "30ms"}},
    ),
    _tuning(
        "every request",
        "spec.speculation.tuning.slo.timeToFirstToken.percentile",
        slo={"timeToFirstToken": {"percentile": 100, "limit": "2s"}},
    ),
    _speculation(
        "targets without a method",
        "spec.speculation: method none drafts nothing",
        method="none",
        drafter=None,
        numSpeculativeTokens=None,
        tuning={"slo": {"interTokenLatency": {"limit": "30ms"}}},
    ),
)

LAUNCHES = (
    _tuning("rollouts", actuation="Rollout"),
    _tuning("rollouts that are only watched", actuation="Rollout", mode="Observe"),
    _tuning("rollouts at most every ten minutes", actuation="Rollout", relaunchInterval="10m"),
    _tuning("rollouts at most every minute", actuation="Rollout", relaunchInterval="60s"),
    _tuning("rollouts without a pause", "is too short; write at least 1m", relaunchInterval="0s"),
    _tuning("rollouts every few seconds", "is too short; write at least 1m", relaunchInterval="59s999ms"),
    _tuning("an unknown actuation", "spec.speculation.tuning.actuation", actuation="Restart"),
    _tuning("an interval without unit", "write a duration such as 30s", relaunchInterval="60"),
    _tuning("a stock engine that keeps its table", actuation="Rollout", mode="Off"),
    _speculation(
        "a stock engine with a method whose K is fixed",
        method="suffix",
        drafter=None,
        tuning={"actuation": "Rollout", "mode": "Off"},
    ),
    _speculation(
        "a stock engine without speculation",
        method="none",
        drafter=None,
        numSpeculativeTokens=None,
        tuning={"actuation": "Rollout", "mode": "Off"},
    ),
    _speculation(
        "rollouts with a method whose K is fixed",
        "spec.speculation.tuning.mode: vLLM cannot change K of method suffix",
        method="suffix",
        drafter=None,
        tuning={"actuation": "Rollout"},
    ),
    _speculation(
        "rollouts without speculation",
        "method none drafts nothing",
        method="none",
        drafter=None,
        numSpeculativeTokens=None,
        tuning={"actuation": "Rollout"},
    ),
    _tuning("a relaunch", structuralOff="Allow"),
    _tuning("a recommended relaunch", structuralOff="Recommend", mode="Observe"),
    _tuning("a relaunch of a stock engine", structuralOff="Allow", actuation="Rollout"),
    *(
        _tuning(
            f"a relaunch without a tuner, {wish}",
            "spec.speculation.tuning.structuralOff: mode Off measures nothing",
            structuralOff=wish,
            mode="Off",
        )
        for wish in ("Recommend", "Allow")
    ),
    _speculation(
        "a relaunch without speculation",
        "spec.speculation.tuning.structuralOff: mode Off measures nothing",
        method="none",
        drafter=None,
        numSpeculativeTokens=None,
        tuning={"mode": "Off", "structuralOff": "Allow"},
    ),
    _tuning("a canary", canary="Allow"),
    _tuning(
        "a canary without a tuner",
        "spec.speculation.tuning.canary: mode Off measures nothing",
        canary="Allow",
        mode="Off",
    ),
    _tuning(
        "a canary of stock engines",
        "spec.speculation.tuning.canary: engines without Outrider's plugin",
        canary="Allow",
        actuation="Rollout",
    ),
    *(
        _speculation(f"a draft model with K=0 {k0}", method="draft_model", tuning={"k0": k0})
        for k0 in ("Auto", "Sync", "Skip")
    ),
    *(_speculation(f"EAGLE with K=0 {k0}", method="eagle3", tuning={"k0": k0}) for k0 in ("Auto", "Sync")),
    _speculation(
        "a drafter that is left out and cannot catch up",
        "works with method draft_model only, and method is eagle3",
        method="eagle3",
        tuning={"k0": "Skip"},
    ),
)

POOLS_WITH_DRAFTS = "the model gives embeddings or scores and generates no tokens"
VLLMS = "mirror.example/vllm/vllm-openai:v0.33.0"
ADAPTER = {"name": "legal", "uri": "hf://org/qwen-legal-lora"}
SHORT: Json = {"name": "short", "maxK": 0, "when": {"promptTokensBelow": 20}}
OF_ADAPTER: Json = {"name": "legal", "maxK": 1, "when": {"loraAdapter": "legal"}}

ENGINES = (
    _spec("an unknown engine", "spec.engine.runtime", engine={"runtime": "TensorRT-LLM"}),
    _spec("a version", engine={"runtime": "vLLM", "version": "0.32.0", "image": "vllm:x", "port": 9000}),
    _spec("vLLM's own image", engine={"image": "vllm/vllm-openai:v0.33.0"}),
    _spec("vLLM's own image with the plugin brought", engine={"image": VLLMS, "plugin": "Injected"}),
    _spec("any image with the plugin brought", engine={"image": "registry/vllm:1", "plugin": "Injected"}),
    _spec("an image with the plugin", engine={"image": "registry/outrider-engine:1", "plugin": "Baked"}),
    _spec("the operator's image with the plugin", engine={"plugin": "Baked"}),
    _spec("another way to the plugin", "spec.engine.plugin", engine={"plugin": "Copied"}),
    _spec(
        "vLLM's own image with the plugin in it",
        "spec.engine.plugin: Baked says that the image has Outrider's plugin",
        engine={"image": VLLMS, "plugin": "Baked"},
    ),
    AdmissionCase(
        "vLLM's own image, launched without the plugin",
        {
            "spec": {
                "engine": {"image": VLLMS, "plugin": "Baked"},
                "speculation": {"tuning": {"actuation": "Rollout"}},
            }
        },
    ),
    _spec("a tag as version", "write three numbers, such as 0.33.0", engine={"version": "latest"}),
    _spec("two numbers as version", "'0.33' is not a version", engine={"version": "0.33"}),
    _spec("a version of a build", engine={"version": "0.33.0.post1+cu129"}),
    _spec(
        "LoRA adapters", engine={"loraAdapters": [ADAPTER, ADAPTER | {"name": "sql", "uri": "pvc://a/sql"}]}
    ),
    _spec(
        "an adapter in a bucket",
        "downloads only model and drafter from a bucket",
        engine={"loraAdapters": [ADAPTER | {"uri": "s3://models/legal"}]},
    ),
    _spec(
        "an adapter without a place", "spec.engine.loraAdapters", engine={"loraAdapters": [{"name": "sql"}]}
    ),
    _spec("an adapter of no name", "is not a name", engine={"loraAdapters": [ADAPTER | {"name": "a b"}]}),
    _spec("an adapter twice", "spec.engine.loraAdapters", engine={"loraAdapters": [ADAPTER, ADAPTER]}),
    _spec(
        "an adapter with the name of the object",
        "clients send 'qwen' for the model itself",
        engine={"loraAdapters": [ADAPTER | {"name": "qwen"}]},
    ),
    _spec(
        "an adapter with a name of the model",
        "an adapter has a name of the model",
        model={"servedAliases": ["legal"]},
        engine={"loraAdapters": [ADAPTER]},
    ),
    _spec(
        "adapters with adaptive verification",
        "vLLM has no adaptive verification with LoRA",
        speculation={"verification": "Adaptive"},
        engine={"loraAdapters": [ADAPTER]},
    ),
    _spec(
        "adapters while verification is compared",
        "vLLM has no adaptive verification with LoRA",
        speculation={"verification": "Auto"},
        engine={"loraAdapters": [ADAPTER]},
    ),
    _speculation(
        "request limits of every kind",
        requestLimits=[
            SHORT,
            {"name": "early", "maxK": 1, "when": {"firstOutputTokens": 32}},
            {"name": "json", "maxK": 2, "when": {"structuredOutput": True, "maxTokensBelow": 16}},
        ],
    ),
    _spec(
        "a request limit of an adapter",
        speculation={"requestLimits": [OF_ADAPTER]},
        engine={"loraAdapters": [ADAPTER]},
    ),
    _speculation("a request limit of an adapter that is loaded later", requestLimits=[OF_ADAPTER]),
    _spec(
        "a request limit of no adapter",
        "a loraAdapter is not in engine.loraAdapters",
        speculation={"requestLimits": [OF_ADAPTER]},
        engine={"loraAdapters": [ADAPTER | {"name": "sql"}]},
    ),
    _speculation(
        "a request limit of every request",
        "when is empty, and would limit every request",
        requestLimits=[SHORT | {"when": {}}],
    ),
    _speculation(
        "a request limit without a condition",
        "spec.speculation.requestLimits",
        requestLimits=[{"name": "all", "maxK": 0}],
    ),
    _speculation(
        "a request limit of no length",
        "spec.speculation.requestLimits",
        requestLimits=[SHORT | {"when": {"promptTokensBelow": 0}}],
    ),
    _speculation(
        "a request limit of no name",
        "spec.speculation.requestLimits",
        requestLimits=[SHORT | {"name": "A b"}],
    ),
    _speculation("a request limit twice", "spec.speculation.requestLimits", requestLimits=[SHORT, SHORT]),
    _speculation(
        "a request limit of K",
        "a maxK of 5 or more limits nothing",
        requestLimits=[SHORT | {"maxK": 5}],
    ),
    _speculation(
        "request limits without the plugin",
        "Outrider's plugin limits requests",
        requestLimits=[SHORT],
        tuning={"actuation": "Rollout"},
    ),
    _speculation(
        "request limits without drafts",
        "method none drafts nothing",
        method="none",
        drafter=None,
        numSpeculativeTokens=None,
        requestLimits=[SHORT],
    ),
    _spec("the other side of a KV connector", engine={"kvTransferPeer": "qwen-prefill"}),
    _spec(
        "a model as its own other side",
        "spec.engine.kvTransferPeer: 'qwen' is this model",
        engine={"kvTransferPeer": "qwen"},
    ),
    _spec("another side that is no name", "spec.engine.kvTransferPeer", engine={"kvTransferPeer": "Qwen/8B"}),
    _spec("an InferencePool", inferencePool={"endpointPicker": {"service": "qwen-epp"}}),
    _spec(
        "an InferencePool in full",
        inferencePool={
            "endpointPicker": {"service": "qwen-epp", "port": 9003, "failureMode": "FailClose"},
            "port": 9000,
            "canary": "Exclude",
        },
    ),
    _spec("a member of another pool", inferencePool={"memberOf": "qwen-decode"}),
    _spec("a member of a pool that cannot be", "memberOf", inferencePool={"memberOf": "q" * 53}),
    _spec("an empty InferencePool", "spec.inferencePool: write endpointPicker", inferencePool={}),
    _spec(
        "a pool of its own and another",
        "only one of both",
        inferencePool={"endpointPicker": {"service": "qwen-epp"}, "memberOf": "other"},
    ),
    _spec(
        "a member with a port of its own",
        "spec.inferencePool.port: the pool of other has the port",
        inferencePool={"memberOf": "other", "port": 9000},
    ),
    _spec(
        "a member of its own pool",
        "spec.inferencePool.memberOf: 'qwen' is this model",
        inferencePool={"memberOf": "qwen"},
    ),
    _spec(
        "a picker without a Service", "spec.inferencePool", inferencePool={"endpointPicker": {"port": 9002}}
    ),
    _spec(
        "a picker of no name",
        "spec.inferencePool.endpointPicker",
        inferencePool={"endpointPicker": {"service": "Not A Name"}},
    ),
    _spec(
        "another failure mode",
        "spec.inferencePool.endpointPicker",
        inferencePool={"endpointPicker": {"service": "qwen-epp", "failureMode": "Retry"}},
    ),
    _spec("a privileged port", "spec.engine.port", engine={"port": 80}),
    _args(
        "flags of all kinds", max__num__seqs=64, enforce__eager=True, dtype="bfloat16", middleware=["a", "b"]
    ),
    _args("a fraction", gpu__memory__utilization=0.9),
    _speculation("keys of vLLM's own", config={"max_model_len": 4096, "quantization": "fp8", "use_it": True}),
    _speculation("a lossless sampler", config={"rejection_sample_method": "block"}),
    _speculation(
        "a sampler that changes outputs",
        "spec.speculation.config.rejection_sample_method must be standard or block",
        config={"rejection_sample_method": "fly"},
    ),
    _speculation(
        "a drafter with a vocabulary of its own",
        method="draft_model",
        config={"use_heterogeneous_vocab": True},
    ),
    _speculation(
        "a head with a vocabulary of its own",
        "spec.speculation.config.use_heterogeneous_vocab is for method draft_model",
        method="eagle3",
        config={"use_heterogeneous_vocab": True},
    ),
    _speculation("a head without one", method="eagle3", config={"use_heterogeneous_vocab": False}),
    _speculation(
        "a vocabulary of its own that is a word",
        "spec.speculation.config.use_heterogeneous_vocab",
        method="draft_model",
        config={"use_heterogeneous_vocab": "yes"},
    ),
    *(
        _adaptive(f"adaptive verification tuned with {tuning}", tuning=tuning)
        for tuning in ({}, {"mode": "Observe"}, {"actuation": "Live"})
    ),
    *(
        _adaptive(
            f"adaptive verification without the plugin's counters and {tuning}",
            "spec.speculation.verification: with Adaptive and Auto vLLM leaves draft tokens unverified",
            tuning=tuning,
        )
        for tuning in ({"actuation": "Rollout"}, {"mode": "Observe", "actuation": "Rollout"})
    ),
    _adaptive(
        "adaptive verification beside a table that nothing tunes",
        "spec.speculation.verification: with Adaptive and tuning.mode Off the engine keeps one K",
        schedule=[_row(5, 8), _row(0)],
    ),
    _adaptive("adaptive verification above a table", tuning={}, schedule=[_row(5, 8), _row(0)]),
    _adaptive("adaptive verification with one K"),
    _adaptive(
        "adaptive verification with one K that is named",
        candidates=[5],
        tuning={"mode": "Off", "actuation": "Rollout"},
    ),
    _adaptive("adaptive verification of a method whose K is fixed", method="dspark"),
    _speculation("no adaptive verification", verification="Fixed"),
    _speculation(
        "adaptive verification of drafts without probabilities",
        "spec.speculation.verification: vLLM has no adaptive verification for method ngram; leave it out",
        method="ngram",
        drafter=None,
        verification="Adaptive",
        tuning={"mode": "Off"},
    ),
    *(
        _adaptive(f"verification compared with tuning {tuning}", verification="Auto", tuning=tuning)
        for tuning in ({}, {"mode": "Observe"})
    ),
    _adaptive(
        "verification compared without tuning",
        "spec.speculation.verification: with Auto the tuner compares",
        verification="Auto",
    ),
    _adaptive(
        "verification compared without the plugin's counters",
        "spec.speculation.verification: with Adaptive and Auto vLLM leaves draft tokens unverified",
        verification="Auto",
        tuning={"actuation": "Rollout"},
    ),
    _adaptive(
        "verification compared for a method without it",
        "spec.speculation.verification: vLLM has no adaptive verification for method ngram; leave it out",
        method="ngram",
        drafter=None,
        verification="Auto",
        tuning={},
    ),
    _spec(
        "verification compared on replicas of several nodes",
        "spec.speculation.verification: Auto relaunches replicas",
        parallelism={"tensor": 4, "nodes": 2},
        rollout={"onFailure": "Hold"},
        speculation={"verification": "Auto"},
    ),
    _adaptive("another verification", "spec.speculation.verification", verification="Sometimes"),
    *(
        _speculation(
            f"adaptive verification {value} among vLLM's own keys",
            "spec.speculation.config.enable_adaptive_verification is set by Outrider: set "
            "spec.speculation.verification to Adaptive",
            config={"enable_adaptive_verification": value},
        )
        for value in (True, False)
    ),
    *(
        _args(f"speculation for a model that pools by {flag}", POOLS_WITH_DRAFTS, **{flag: value})
        for flag, value in (("runner", "pooling"), ("convert", "embed"), ("task", "embed"))
    ),
    *(
        _args(f"speculation for a model with {flag} {value}", **{flag: value})
        for flag, value in (("runner", "generate"), ("runner", "auto"), ("convert", "none"))
    ),
    _spec(
        "a model that pools, without speculation",
        speculation={"method": "none", "drafter": None, "numSpeculativeTokens": None},
        engine={"args": {"runner": "pooling", "convert": "embed"}},
    ),
    _speculation(
        "a method among vLLM's own keys",
        "spec.speculation.config.method is set by Outrider: set spec.speculation.method",
        config={"method": "mtp"},
    ),
    _speculation(
        "a table among vLLM's own keys",
        "spec.speculation.config.num_speculative_tokens_per_batch_size is set by Outrider",
        config={"num_speculative_tokens_per_batch_size": "1-8: 3"},
    ),
    AdmissionCase(
        "vLLM's own keys without speculation",
        {
            "spec": {
                "speculation": {
                    "method": "none",
                    "drafter": None,
                    "numSpeculativeTokens": None,
                    "config": {"quantization": "fp8"},
                }
            }
        },
        "spec.speculation.config is not used by method none",
    ),
    _args("the model as a flag", "spec.engine.args.model is set by Outrider", model="x"),
    _args("the port as a flag", "spec.engine.args.port is set by Outrider", port=1),
    _args("speculation as a flag", "spec.engine.args.speculative-config is set", speculative__config="{}"),
    _args("speculation with underscores", "spec.engine.args.speculative_config", speculative_config="{}"),
    _args("a served name as a flag", "spec.engine.args.served-model-name is set", served__model__name="x"),
    _args("a context as a flag", "spec.engine.args.max-model-len is set", max__model__len=1),
    _args("tensor parallel as a short flag", "spec.engine.args.tp is set by Outrider", tp=2),
    _args("a token in the open", "spec.engine.args.hf-token is set by Outrider", hf__token="x"),
    _args("a key in the open", "spec.engine.args.api-key is set by Outrider", api__key="x"),
    _args("a flag that hides metrics", "spec.engine.args.disable-log-stats", disable__log__stats="true"),
)

V2_ALONE = "spec.parallelism.pipeline is 2: with pipeline stages vLLM drafts on its V2 model runner only"
SHAPES = (
    _spec("a pipeline with a head", parallelism={"pipeline": 2}),
    _spec(
        "a pipeline with MTP",
        parallelism={"pipeline": 2},
        speculation={"method": "mtp", "drafter": None},
        engine={"modelRunner": "V2"},
    ),
    _spec(
        "a pipeline without speculation",
        parallelism={"pipeline": 2},
        speculation={"method": "none", "drafter": None, "numSpeculativeTokens": None},
        engine={"modelRunner": "V1"},
    ),
    *(
        _spec(
            f"a pipeline with {method}",
            V2_ALONE,
            parallelism={"pipeline": 2},
            speculation={"method": method, **more},
        )
        for method, more in (
            ("draft_model", {}),
            ("dflash", {}),
            ("ngram", {"drafter": None}),
            ("suffix", {"drafter": None, "tuning": {"mode": "Off"}}),
        )
    ),
    _spec("a pipeline on V1", V2_ALONE, parallelism={"pipeline": 2}, engine={"modelRunner": "V1"}),
    _spec("two GPUs", parallelism={"tensor": 2}),
    _spec("no GPU", "spec.parallelism.tensor", parallelism={"tensor": 0}),
    _spec("two nodes", parallelism={"tensor": 4, "nodes": 2}, rollout={"onFailure": "Hold"}),
    _spec(
        "nodes that share unevenly",
        "3 nodes cannot share 4 x 1 GPUs",
        parallelism={"tensor": 4, "nodes": 3},
        rollout={"onFailure": "Hold"},
    ),
    _spec(
        "data parallelism over nodes",
        "spec.parallelism: data is 2 and nodes is 2, and Outrider makes no data-parallel replicas",
        parallelism={"tensor": 2, "data": 2, "nodes": 2},
        speculation={"tuning": {"mode": "Off"}},
        rollout={"onFailure": "Hold"},
    ),
    _spec(
        "nodes that would roll back",
        "spec.rollout.onFailure: Outrider cannot return replicas of several nodes",
        parallelism={"tensor": 4, "nodes": 2},
    ),
    *(
        _spec(
            f"nodes with {field}",
            "spec.speculation.tuning: Outrider tunes replicas of several nodes live only",
            parallelism={"tensor": 4, "nodes": 2},
            rollout={"onFailure": "Hold"},
            speculation={"tuning": {field: value}},
        )
        for field, value in (("actuation", "Rollout"), ("structuralOff", "Allow"), ("canary", "Allow"))
    ),
    AdmissionCase(
        "a long name on several nodes",
        {
            "metadata": {"name": "q" * 41},
            "spec": {"parallelism": {"tensor": 4, "nodes": 2}, "rollout": {"onFailure": "Hold"}},
        },
        "write at most 40 characters",
    ),
    _spec(
        "data parallelism with live tables",
        "spec.parallelism.data is 2: with data parallelism vLLM cannot change K",
        parallelism={"data": 2},
    ),
    *(
        _spec(
            f"data parallelism that is relaunched, {name}",
            parallelism={"data": 2},
            speculation={"tuning": {"actuation": "Rollout"}, **more},
        )
        for name, more in (
            ("as it is", {}),
            ("among candidates", {"candidates": [0, 2, 5]}),
            ("from one K", {"schedule": [{"numSpeculativeTokens": 2}]}),
            (
                "with its K for good",
                {"tuning": {"actuation": "Rollout", "mode": "Off"}, "candidates": [0, 5]},
            ),
        )
    ),
    *(
        _spec(
            f"data parallelism that is relaunched with {name}",
            "spec.parallelism.data is 2: an engine then has one K for all batch sizes",
            parallelism={"data": 2},
            speculation={"tuning": {"actuation": "Rollout"}, **more},
        )
        for name, more in (
            (
                "a table",
                {"schedule": [{"maxBatchSize": 8, "numSpeculativeTokens": 5}, {"numSpeculativeTokens": 0}]},
            ),
            ("a launch without drafter", {"tuning": {"actuation": "Rollout", "structuralOff": "Allow"}}),
        )
    ),
    _spec("static data parallelism", parallelism={"data": 2}, speculation={"tuning": {"mode": "Off"}}),
    _spec(
        "data parallelism with candidates",
        "candidates and schedule may name 5 only",
        parallelism={"data": 2},
        speculation={"tuning": {"mode": "Off"}, "candidates": [0, 5]},
    ),
    _spec(
        "a drafter as wide as its target",
        parallelism={"tensor": 2},
        speculation={"method": "draft_model", "drafter": {"tensorParallelSize": 2}},
    ),
    _spec(
        "a draft model on one of two GPUs",
        "spec.speculation.drafter.tensorParallelSize is",
        parallelism={"tensor": 2},
        speculation={"method": "draft_model", "drafter": {"tensorParallelSize": 1}},
    ),
    _spec(
        "an EAGLE head on one of two GPUs, which vLLM does not read",
        "spec.speculation.drafter.tensorParallelSize is",
        parallelism={"tensor": 2},
        speculation={"drafter": {"tensorParallelSize": 1}},
    ),
    _spec(
        "a DSpark drafter on one of two GPUs",
        parallelism={"tensor": 2},
        speculation={
            "method": "dspark",
            "drafter": {"tensorParallelSize": 1},
            "tuning": {"mode": "Off"},
        },
    ),
    _spec(
        "a drafter on two of four GPUs",
        "spec.speculation.drafter.tensorParallelSize is",
        parallelism={"tensor": 4},
        speculation={"drafter": {"tensorParallelSize": 2}},
    ),
    _spec("CPU resources", resources={"limits": {"memory": "2Gi"}, "requests": {"cpu": "100m", "memory": 1}}),
    _spec("a bad quantity", "spec.resources.limits.memory", resources={"limits": {"memory": "much"}}),
    _spec("a negative quantity", "spec.resources.requests.cpu", resources={"requests": {"cpu": -1}}),
    _spec("no replicas", replicas=0),
    _spec("negative replicas", "spec.replicas", replicas=-1),
    _spec(
        "a rollout in percent", rollout={"maxSurge": "25%", "maxUnavailable": 1, "progressDeadline": "1h30m"}
    ),
    _spec(
        "a rollout that cannot move",
        "maxSurge and maxUnavailable must not both be 0",
        rollout={"maxSurge": 0},
    ),
    _spec(
        "a rollout of no percent",
        "maxSurge and maxUnavailable must not both be 0",
        rollout={"maxSurge": "0%", "maxUnavailable": "0%"},
    ),
    _spec("more surge than pods", rollout={"maxSurge": "200%"}),
    _spec("all pods unavailable", rollout={"maxUnavailable": "100%"}),
    _spec(
        "more pods unavailable than there are",
        "spec.rollout.maxUnavailable is 101%",
        rollout={"maxUnavailable": "101%"},
    ),
    _spec("zero written twice", "or a percentage such as 25%", rollout={"maxSurge": "00%"}),
    _spec(
        "devices by claims",
        resources={"claims": [{"name": "gpus", "resourceClaimTemplateName": "four-gpus"}]},
    ),
    _spec(
        "two claims of one name",
        "spec.resources.claims",
        resources={"claims": [{"name": "a", "resourceClaimTemplateName": "x"}] * 2},
    ),
    _spec("a claim of nothing", "spec.resources.claims", resources={"claims": [{"name": "gpus"}]}),
    _spec(
        "a rollout that is held, without a budget",
        rollout={"onFailure": "Hold", "surgeTimeout": "90s", "disruptionBudget": "Never"},
    ),
    _spec("another end of a rollout", "spec.rollout.onFailure", rollout={"onFailure": "Rollback"}),
    _spec("another budget", "spec.rollout.disruptionBudget", rollout={"disruptionBudget": "Always"}),
    _spec("a wait without unit", "write a duration such as 30s", rollout={"surgeTimeout": "300"}),
    _spec("a negative surge", "write a number of pods from 0 to 10000", rollout={"maxSurge": -1}),
    _spec("a surge in words", "or a percentage such as 25%", rollout={"maxSurge": "one"}),
    _spec("a huge surge", "write a number of pods from 0 to 10000", rollout={"maxSurge": 2**31}),
    _spec("negative unavailability", "write a number of pods from 0", rollout={"maxUnavailable": -1}),
    _spec("a deadline without unit", "write a duration such as 30s", rollout={"progressDeadline": "20"}),
    _spec("a deadline of ten seconds", rollout={"progressDeadline": "10s", "surgeTimeout": "0h10s"}),
    _spec("no deadline", "is too short; write at least 10s", rollout={"progressDeadline": "0s"}),
    _spec("no wait", "is too short; write at least 10s", rollout={"surgeTimeout": "0.0m"}),
    _spec("a deadline of a year", rollout={"progressDeadline": "8760h"}),
    _spec(
        "a deadline of two years", "is too long; write at most 8760h", rollout={"progressDeadline": "17520h"}
    ),
    _spec("a cache", cache={"claim": "weights"}),
    _spec("a cache to be made", cache={"size": "200Gi", "storageClass": "ssd"}),
    _spec("a cache for many nodes", cache={"size": "200Gi", "accessMode": "ReadWriteMany"}),
    _spec(
        "a cache that nobody can write",
        "spec.cache.accessMode",
        cache={"size": 1, "accessMode": "ReadOnlyMany"},
    ),
    _spec("a cache without claim and size", "spec.cache: write either claim", cache={}),
    _spec("a cache with claim and size", "or size, for a new one", cache={"claim": "weights", "size": "1Gi"}),
    _spec("a cache of no size", "spec.cache.size", cache={"size": "large"}),
    _spec(
        "a storage class of a claim that exists",
        "leave them out beside claim",
        cache={"claim": "weights", "storageClass": "ssd"},
    ),
    _spec(
        "a store of one's own",
        model={"uri": "s3://models/qwen3-8b"},
        cache={"size": "1Gi", "s3": {"endpoint": "https://minio.storage.svc:9000", "secret": "minio"}},
    ),
    _spec(
        "a store with its keys in the URL",
        "write one without keys",
        model={"uri": "s3://models/qwen3-8b"},
        cache={"size": "1Gi", "s3": {"endpoint": "https://key:secret@minio"}},
    ),
    _spec(
        "a store of another addressing",
        "spec.cache.s3.addressing",
        model={"uri": "s3://models/qwen3-8b"},
        cache={"size": "1Gi", "s3": {"addressing": "Wild"}},
    ),
    _spec(
        "a store that nothing uses",
        "spec.cache.s3 is for s3://",
        cache={"size": "1Gi", "s3": {"secret": "minio"}},
    ),
    _spec(
        "a cache that nothing uses",
        "spec.cache keeps what is downloaded from hf:// or s3://",
        model={"uri": "pvc://models/qwen"},
        speculation={"method": "ngram", "drafter": None},
        cache={"claim": "weights"},
    ),
    _spec(
        "an overlay",
        podTemplate={
            "metadata": {"labels": {"team": "a"}, "annotations": {"x": "y"}},
            "spec": {"nodeSelector": {"gpu": "h100"}, "containers": [{"name": "engine", "env": []}]},
        },
    ),
    _spec(
        "a container beside the engine",
        podTemplate={"spec": {"containers": [{"name": "proxy", "image": "proxy:1", "env": []}]}},
    ),
    _spec(
        "a misspelt name of the engine's container",
        "spec.podTemplate.spec.containers: the engine's container is named engine",
        podTemplate={"spec": {"containers": [{"name": "engine"}, {"name": "engin", "env": []}]}},
    ),
    _spec(
        "a container without a name",
        "spec.podTemplate.spec.containers: the engine's container is named engine",
        podTemplate={"spec": {"containers": [{"env": []}]}},
    ),
    _spec(
        "an overlay with a label that no pod can have",
        "spec.podTemplate.metadata.labels.a",
        podTemplate={"metadata": {"labels": {"a": "not valid!"}}},
    ),
    _spec(
        "an overlay on Outrider's labels",
        "spec.podTemplate.metadata.labels: keys of outrider.dev/ belong to Outrider",
        podTemplate={"metadata": {"labels": {"outrider.dev/model": "other"}}},
    ),
)

_SELECTED: dict[str, Any] = {"selector": {"matchLabels": {"app": "llm"}}}
_WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llm"}


def _target(
    name: str, refused: str | None = None, *, spec: Json | None = None, **target: object
) -> AdmissionCase:
    """A target in place of the model. target: its fields; by default a selector."""
    fields: Json = {"model": None, "speculation": None, "target": target or _SELECTED, **(spec or {})}
    return AdmissionCase(f"a target: {name}", {"spec": fields}, refused)


TARGETS = (
    _target("by labels"),
    _target("with a port and a mode", **_SELECTED, port=8080, tuning={"mode": "Observe"}),
    _target("with request limits", **_SELECTED, requestLimits=[SHORT, OF_ADAPTER]),
    _target("with latency targets", **_SELECTED, tuning={"slo": {"interTokenLatency": {"limit": "30ms"}}}),
    _target("with an empty SLO", "spec.target.tuning.slo has no target", **_SELECTED, tuning={"slo": {}}),
    _target(
        "with latency targets without a tuner",
        "spec.target.tuning.slo: mode Off measures nothing",
        **_SELECTED,
        tuning={"mode": "Off", "slo": {"timeToFirstToken": {"limit": "2s"}}},
    ),
    _target("by expressions", selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
    _target("of a Deployment", workload=_WORKLOAD),
    _target(
        "of KServe",
        workload={"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "name": "llm"},
    ),
    _target(
        "of a version that does not exist",
        "spec.target.workload.apiVersion: apps/v2 has no kind Deployment",
        workload={**_WORKLOAD, "apiVersion": "apps/v2"},
    ),
    _target("of an unknown kind", "spec.target.workload.kind", workload={**_WORKLOAD, "kind": "DaemonSet"}),
    _target("named twice", "spec.target: write either selector", **_SELECTED, workload=_WORKLOAD),
    _target("named by nothing", "spec.target: write either selector", port=8000),
    _target("of every pod", "spec.target.selector is empty", selector={"matchLabels": {}}),
    _target(
        "with values that nothing compares",
        "spec.target.selector.matchExpressions: operator Exists of app",
        selector={"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["llm"]}]},
    ),
    _target("at no port", "spec.target.port", **_SELECTED, port=0),
    _target(
        "beside a model",
        "spec.model: write the model to serve",
        spec={"model": {"uri": "hf://Qwen/Qwen3-8B"}},
    ),
    _target("with a method", "spec.target: Outrider neither launches", spec={"speculation": {}}),
    _target("with a volume", "spec.target: Outrider neither launches", spec={"cache": {"size": "1Gi"}}),
    _target("with replicas", "spec.replicas is 3: Outrider does not scale", spec={"replicas": 3}),
    _target("with an image", "spec.engine: Outrider does not launch", spec={"engine": {"image": "vllm:1"}}),
    _target("with GPUs", "spec.engine: Outrider does not launch", spec={"parallelism": {"tensor": 2}}),
    _target("with rollouts", "spec.rollout: Outrider rolls out no pods", spec={"rollout": {"maxSurge": 2}}),
)


def _sglang(name: str, refused: str | None = None, **fields: object) -> AdmissionCase:
    """The complete object with SGLang in place of vLLM."""
    engine = fields.pop("engine", {})
    assert isinstance(engine, Mapping)
    return _spec(name, refused, engine={"runtime": "SGLang", "version": "0.5.23", **engine}, **fields)


_OFF = {"mode": "Off"}
_ROLLOUT = {"actuation": "Rollout"}
_DRAFT_MODEL = {"method": "draft_model", "drafter": {"uri": "hf://org/small"}}
_NGRAM = {"method": "ngram", "drafter": None}
_DFLASH = {"method": "dflash", "drafter": {"uri": "hf://org/head"}}

RUNTIMES = (
    _sglang("SGLang"),
    _sglang("SGLang's own image", engine={"image": "lmsysorg/sglang:v0.5.23"}),
    _sglang("flags of SGLang", engine={"args": {"mem-fraction-static": 0.8, "chunked-prefill-size": 8192}}),
    _sglang("flags that only vLLM owns", engine={"args": {"max-model-len-x": 1, "headless": True}}),
    _spec("SGLang with a release of vLLM", "spec.engine.version is 0.33.0", engine={"runtime": "SGLang"}),
    _sglang(
        "SGLang's own image as one with the plugin",
        "spec.engine.plugin: Baked",
        engine={"image": "lmsysorg/sglang:v0.5.23", "plugin": "Baked"},
    ),
    _sglang(
        "a method of vLLM",
        "SGLang has no method suffix",
        speculation={"method": "suffix", "drafter": None, "tuning": _OFF},
    ),
    _sglang(
        "the model as a flag of SGLang",
        "spec.engine.args.model-path is set by Outrider",
        engine={"args": {"model-path": "x"}},
    ),
    _sglang(
        "another algorithm in the flags",
        "spec.engine.args.speculative_algorithm is set by Outrider",
        engine={"args": {"speculative_algorithm": "NGRAM"}},
    ),
    _sglang(
        "lossy acceptance",
        "spec.engine.args.speculative-accept-threshold-single is set by Outrider",
        engine={"args": {"speculative-accept-threshold-single": "0.9"}},
    ),
    *(
        _sglang(
            f"live tuning with {flag}", "spec.engine.args: SGLang changes no K", engine={"args": {flag: True}}
        )
        for flag in (
            "enable-dp-attention",
            "enable-multi-layer-eagle",
            "enable-two-batch-overlap",
            "enable-pdmux",
        )
    ),
    _sglang("a switch that is off", engine={"args": {"enable-pdmux": False}}),
    _sglang(
        "one K with two-batch overlap",
        engine={"args": {"enable-two-batch-overlap": True}},
        speculation={"candidates": [5], "tuning": _OFF},
    ),
    _sglang(
        "a draft model in a running SGLang",
        "spec.speculation.tuning: SGLang changes K of method draft_model by a restart",
        speculation=_DRAFT_MODEL,
    ),
    _sglang("a draft model by restarts", speculation={**_DRAFT_MODEL, "tuning": _ROLLOUT}),
    _sglang("a draft model with one K", speculation={**_DRAFT_MODEL, "tuning": _OFF}),
    _sglang("n-gram with one K", speculation={**_NGRAM, "tuning": _OFF}),
    _sglang(
        "n-gram by restarts with a schedule by batch size",
        "spec.speculation: SGLang has one K of method ngram for all batch sizes",
        speculation={
            **_NGRAM,
            "tuning": _ROLLOUT,
            "schedule": [{"maxBatchSize": 4, "numSpeculativeTokens": 5}, {"numSpeculativeTokens": 0}],
        },
    ),
    _sglang(
        "a tuned block",
        "spec.speculation.tuning.mode: SGLang does not change K of method dflash",
        speculation=_DFLASH,
    ),
    _sglang("a block with one K", speculation={**_DFLASH, "tuning": _OFF}),
    _sglang(
        "a block with several K",
        "spec.speculation: SGLang keeps one K of method dflash",
        speculation={**_DFLASH, "tuning": _OFF, "candidates": [0, 5]},
    ),
    _sglang(
        "embeddings of SGLang",
        "spec.speculation.method: with these engine.args",
        engine={"args": {"is-embedding": True}},
    ),
    _sglang(
        "a model runner of SGLang",
        "spec.engine.modelRunner: SGLang has one model runner",
        engine={"modelRunner": "V1"},
    ),
    _sglang(
        "adaptive verification in SGLang",
        "spec.speculation.verification: SGLang verifies all drafts",
        speculation={"verification": "Adaptive"},
    ),
    _sglang(
        "keys of vLLM in SGLang",
        "spec.speculation.config has keys of vLLM",
        speculation={"config": {"quantization": "fp8"}},
    ),
    _sglang(
        "limits of requests in SGLang",
        "spec.speculation.requestLimits: SGLang has one K for all requests",
        speculation={"requestLimits": [OF_ADAPTER]},
    ),
    _sglang(
        "an idle drafter of SGLang",
        "spec.speculation.tuning.k0: SGLang decides",
        speculation={"tuning": {"k0": "Sync"}},
    ),
    _sglang(
        "the GPUs of SGLang's drafter",
        "spec.speculation.drafter.tensorParallelSize: SGLang spreads a drafter as its target",
        speculation={"drafter": {"tensorParallelSize": 1}},
    ),
    _sglang(
        "drafts of SGLang in stages",
        "spec.parallelism.pipeline is 2: with SGLang",
        parallelism={"pipeline": 2},
    ),
    _sglang(
        "an adapter of SGLang",
        "spec.engine.loraAdapters: Outrider loads adapters in vLLM only",
        engine={"loraAdapters": [{"name": "a", "uri": "hf://org/a"}]},
    ),
    _sglang(
        "a KV connector of SGLang",
        "spec.engine.kvTransferPeer: Outrider compares",
        engine={"kvTransferPeer": "other"},
    ),
    _sglang(
        "two names of SGLang",
        "spec.model.servedAliases: SGLang serves one name",
        model={"servedAliases": ["other"]},
    ),
)


CASES: tuple[AdmissionCase, ...] = (
    *NAMES,
    *MODELS,
    *METHODS,
    *DRAFT_LENGTHS,
    *TUNING,
    *LAUNCHES,
    *ENGINES,
    *RUNTIMES,
    *SHAPES,
    *TARGETS,
)
