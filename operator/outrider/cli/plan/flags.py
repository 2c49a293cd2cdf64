"""What flags of the engine change of weights and cache, for ``outrider plan``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from outrider.api.engine_args import Scalar, loads_otherwise
from outrider.sizing.architecture import Architecture, Precision

_Args = Mapping[str, Scalar | list[Scalar]]

_AS_THE_CHECKPOINT = {
    "load-format": (
        "auto",
        "safetensors",
        "fastsafetensors",
        "runai_streamer",
        "instanttensor",
        "tensorizer",
    ),
    "dtype": ("auto", "bfloat16", "float16", "half"),
    "kv-cache-dtype": ("auto", "bfloat16", "float16"),
}
"""Values with which weights and cache are what `Architecture` says."""
_EIGHT_BIT_CACHES = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
_EIGHT_BIT_WEIGHTS = ("fp8", "fp8_per_tensor", "fp8_per_channel", "fp8_per_block")


def with_flags(target: Architecture, args: _Args) -> Architecture:
    """The model as the engine loads it with ``spec.engine.args``; what is not known of that is said."""
    for flag, value in args.items():
        target = _with_flag(target, flag, flag.replace("_", "-"), str(value))
    return target


def _with_flag(target: Architecture, written: str, flag: str, value: str) -> Architecture:
    if not loads_otherwise([flag]) or value in _AS_THE_CHECKPOINT.get(flag, ()):
        return target
    if flag == "kv-cache-dtype" and value in _EIGHT_BIT_CACHES:
        kinds = tuple(replace(kind, cache_bytes=kind.cache_bytes / 2) for kind in target.attention_kinds)
        return replace(target, attention=kinds)
    if flag == "quantization" and target.precision is not Precision.BF16:
        return target  # The checkpoint's own format, in another word: vLLM refuses any other.
    if flag == "quantization" and value in _EIGHT_BIT_WEIGHTS and not target.unknown:
        return replace(target, precision=Precision.FP8)
    what = f"weights: spec.engine.args.{written}; pass --weights" if flag == "quantization" else None
    return replace(target, unknown=(*target.unknown, what or f"the effect of spec.engine.args.{written}"))
