"""SGLang's flags of speculation, as the keys of a speculative configuration."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.api.json_object import Json
from outrider.importing.findings import Findings
from outrider.importing.flags import Flags
from outrider.importing.variables import without_value
from outrider.importing.workload import text, whole
from outrider_protocol.methods import Method
from outrider_protocol.sglang_releases import ALGORITHMS

_METHODS: Mapping[str, Method] = {algorithm: method for method, algorithm in ALGORITHMS.items()}
_MODEL = ("speculative-draft-model-path", "speculative-draft-model")
_STEPS_OF_ITS_OWN = 3
"""Steps of SGLang where no flag names them, except of Llama's and Grok's architectures, which have 5."""
_ADAPTIVE: Mapping[str, str] = {
    "speculative-adaptive": "Outrider's tuner chooses K in its place",
    "speculative-adaptive-config": "set spec.speculation.candidates, from which Outrider writes it",
}


def take_config(flags: Flags, findings: Findings) -> Json | None:
    """Take every flag of speculation that a field has out of ``flags``; None without an algorithm.

    It is empty where Outrider does not launch the algorithm.
    """
    algorithm = text(flags.pop("speculative-algorithm", None))
    drafter = next((text(flags.pop(flag)) for flag in _MODEL if flag in flags), None)
    revision = text(flags.pop("speculative-draft-model-revision", None))
    length = _length(flags, algorithm, findings)
    for flag, why in _ADAPTIVE.items():
        if flags.pop(flag, None) is not None:
            findings.dropped(f"--{flag}", why)
    if algorithm is None:
        return None
    method = _METHODS.get(algorithm.upper())
    if method is None:
        findings.dropped(
            f"--speculative-algorithm {algorithm}",
            f"{without_value(algorithm) or 'Outrider launches ' + ', '.join(_METHODS)}; set "
            "spec.speculation.method",
        )
        return {}
    if method is Method.EAGLE and drafter is None:
        method = Method.MTP  # SGLang reads the target's own layers then, whichever of both names is said.
    config: Json = {"method": str(method), "model": drafter, "revision": revision}
    if length is None and method is not Method.DSPARK:
        length = _STEPS_OF_ITS_OWN
        findings.check(
            "numSpeculativeTokens", f"the source has no number for it; Outrider wrote {_STEPS_OF_ITS_OWN}"
        )
    config["num_speculative_tokens"] = length
    return {key: value for key, value in config.items() if value is not None}


def _length(flags: Flags, algorithm: str | None, findings: Findings) -> int | None:
    """Drafted tokens of a step; a verified step has one token more."""
    width = whole(flags.pop("speculative-eagle-topk", None))
    if width is not None and width > 1:
        findings.dropped(
            f"--speculative-eagle-topk {width}",
            "K changes in a running engine with chains alone, so Outrider launches chains",
        )
    steps = whole(flags.pop("speculative-num-steps", None))
    tokens = whole(flags.pop("speculative-num-draft-tokens", None))
    dflash = whole(flags.pop("speculative-dflash-block-size", None))
    dspark = whole(flags.pop("speculative-dspark-block-size", None))
    method = _METHODS.get((algorithm or "").upper())
    if method in (Method.DFLASH, Method.NGRAM, Method.DSPARK):
        verified = dflash or tokens
        return dspark or (None if verified is None else max(1, verified - 1))
    if steps is not None:
        return steps
    return None if tokens is None else max(1, tokens - 1)
