"""What names of models say: their precision, and the weights behind a quantised or tuned variant."""

from __future__ import annotations

import re

from outrider.sizing.architecture import Precision

_WEIGHTS = (
    r"fp8|bf16|fp16|awq|gptq|int4|int8|w4a16|w8a8|w8a16|quantized\.w\d+a\d+|dynamic|nvfp4|mxfp4|mxfp8|fp4|"
    "bnb-4bit"
)
QUANTISED = re.compile(f"-({_WEIGHTS})$")
"""The end of a name that says how its weights are quantised."""
VARIANT = re.compile(f"-({_WEIGHTS}|instruct|it|chat|base|hf|2507)$")
"""The same, or another use of the same dimensions."""
_PRECISIONS = (  # The more particular ones first.
    (Precision.NVFP4, ("nvfp4",)),
    (Precision.MXFP4, ("mxfp4",)),
    (Precision.NVFP4, ("-fp4",)),  # As NVIDIA named its first ones.
    (Precision.MXFP8, ("mxfp8",)),
    (Precision.FP8, ("fp8",)),
    (Precision.INT8, ("int8", "w8a8", "w8a16")),
    (Precision.INT4, ("awq", "gptq", "int4", "w4a16", "bnb-4bit")),
    (Precision.BF16, ("bf16", "fp16")),
)


def precision_in(name: str) -> Precision | None:
    """What a model's name says of its weights; None: nothing."""
    words = name.lower()
    return next((p for p, marks in _PRECISIONS if any(mark in words for mark in marks)), None)


def without(suffix: re.Pattern[str], name: str) -> str:
    """The last part of a name or URI in lower case, without such suffixes."""
    text = name.rstrip("/").rsplit("/", 1)[-1].lower()
    while (shorter := suffix.sub("", text)) != text:
        text = shorter
    return text.removeprefix("meta-")


def without_quantisation(name: str) -> str:
    """The weights that a name or URI is a quantised form of, or itself; in lower case."""
    return without(QUANTISED, name)
