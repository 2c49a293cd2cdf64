"""Bytes per weight of a quantised checkpoint, out of the `quantization_config` of its config.json. Pure.

Each format is read as vLLM reads it, with the modules that it leaves in 16 bits. A format that is not known
here is said to be unknown: it is never taken for 16 bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate

from pydantic import JsonValue

from outrider.sizing.architecture import Precision

Modules = Iterable[tuple[str, int]]
"""Names of linear modules as in ``layers.3.mlp.gate_proj``, and the weights of each."""
_Settings = Mapping[str, JsonValue]
_Group = tuple[Callable[[str], bool], float, Precision]
"""Whether a module is of the group, and bytes and format of its weights."""

SIXTEEN_BITS = Precision.BF16.bytes
_PREFIXES = ("", "model.", "model.language_model.", "language_model.model.", "language_model.")
_OTHER_NAMES = ((".mlp.", ".block_sparse_moe."), (".mlp.", ".feed_forward."))
_OTHER_PROJECTIONS = {".gate_proj": ".w1", ".down_proj": ".w2", ".up_proj": ".w3"}
"""Part of the names of experts, in Mixtral's words."""
_EXPERTS = ".experts."


class UnknownFormat(Exception):
    """What of a quantisation is not known here, in a few words."""


@dataclass(frozen=True, slots=True)
class Format:
    """How wide the weights of a checkpoint are."""

    precision: Precision  # of most of them
    width: Callable[[str], float]  # bytes per weight of a module, by its name

    def mean(self, modules: Modules) -> float:
        """Bytes per weight of these modules together; 16 bits of none."""
        total = wide = 0.0
        for name, weights in modules:
            total += weights
            wide += weights * self.width(name)
        return wide / total if total else SIXTEEN_BITS


def read_format(settings: _Settings | None) -> Format:
    """Reading of a `quantization_config`; None: there is none.

    Raises:
        UnknownFormat: a method, a number of bits or a part of the settings is not known here.
    """
    if settings is None:
        return Format(Precision.BF16, lambda _: SIXTEEN_BITS)
    nested = settings.get("quantization")
    if isinstance(nested, dict):
        settings = {**settings, **nested}
    method = str(settings.get("quant_method") or "").lower().replace("_", "-")
    if not method and "quant_algo" in settings:
        method = "modelopt"
    for names, reader in _READERS:
        if method in names:
            return reader(settings)
    raise UnknownFormat(f"quantisation {method or 'without quant_method'}")


def _experts_only(precision: Precision) -> Callable[[_Settings], Format]:
    def read(_: _Settings) -> Format:
        return Format(precision, lambda name: precision.bytes if _EXPERTS in name else SIXTEEN_BITS)

    return read


def _eight_bit_floats(settings: _Settings) -> Format:
    return _all_but(Precision.FP8, Precision.FP8.bytes, _skipped(settings))


def _grouped_integers(settings: _Settings) -> Format:
    """AWQ, GPTQ and their like: integers with a scale for each group of weights."""
    bits = _number(settings, "bits", "w_bit", "wbits")
    skipped = _skipped(settings)
    dynamic = settings.get("dynamic")
    if isinstance(dynamic, dict) and dynamic:
        if any(not rule.startswith("-:") for rule in dynamic):
            raise UnknownFormat("quantisation with other settings for some modules (dynamic)")
        skipped = _Skipped([*skipped.patterns, *(f"re:{rule[2:]}" for rule in dynamic)])
    width, precision = _integers(bits, _number(settings, "group_size", "q_group_size"))
    return _all_but(precision, width, skipped, output=bool(settings.get("lm_head")))


def _compressed_tensors(settings: _Settings) -> Format:
    sparsity = settings.get("sparsity_config")
    if isinstance(sparsity, dict) and sparsity.get("format", "dense") != "dense":
        raise UnknownFormat(f"sparse weights ({sparsity.get('format')})")
    return _by_groups(settings)


def _by_groups(settings: _Settings) -> Format:
    groups = settings.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise UnknownFormat("quantisation without config_groups")
    return _first_of([_group(group) for group in groups.values()], _skipped(settings))


def _first_of(found: Sequence[_Group], skipped: _Skipped) -> Format:
    """Each module has the width of the first group that names it; 16 bits where none does."""

    def width(name: str) -> float:
        if skipped(name):
            return SIXTEEN_BITS
        return next((wide for names, wide, _ in found if names(name)), SIXTEEN_BITS)

    return Format(min(found, key=lambda each: each[1])[2], width)


def _group(group: JsonValue) -> _Group:
    if not isinstance(group, dict):
        raise UnknownFormat("quantisation with an unreadable config_groups")
    named = group.get("targets") or ["Linear"]
    targets = [str(target) for target in named] if isinstance(named, list) else [str(named)]
    all_linear = "Linear" in targets
    chosen = _Skipped([target for target in targets if target != "Linear"])
    weights = group.get("weights")
    if weights is None:
        return (lambda name: all_linear or chosen(name)), SIXTEEN_BITS, Precision.BF16
    if not isinstance(weights, dict):
        raise UnknownFormat("quantisation with unreadable weights")
    wide, precision = _weights(weights, str(group.get("format") or ""))
    return (lambda name: (all_linear and name != "lm_head") or chosen(name)), wide, precision


def _weights(weights: Mapping[str, JsonValue], layout: str) -> tuple[float, Precision]:
    bits, size = _number(weights, "num_bits"), _number(weights, "group_size")
    kind = str(weights.get("type") or "int")
    if kind == "int":
        return _integers(bits, size, symmetric=weights.get("symmetric") is True)
    if kind == "float" and bits == 8:
        precision = Precision.MXFP8 if size == 32 else Precision.FP8
        return precision.bytes, precision
    if kind == "float" and bits == 4 and (size == 32 or "mxfp4" in layout):
        return Precision.MXFP4.bytes, Precision.MXFP4
    if kind == "float" and bits == 4 and size == 16:
        return Precision.NVFP4.bytes, Precision.NVFP4
    raise UnknownFormat(f"{bits}-bit weights of type {kind}")


_ALGORITHMS = {
    "NVFP4": Precision.NVFP4,
    "W4A16_NVFP4": Precision.NVFP4,
    "NVFP4_AWQ": Precision.NVFP4,
    "FP8": Precision.FP8,
    "FP8_PER_CHANNEL_PER_TOKEN": Precision.FP8,
    "FP8_PB_WO": Precision.FP8,
    "FP8_PB_REAL": Precision.FP8,
    "MXFP8": Precision.MXFP8,
    "MXFP4": Precision.MXFP4,
    "W4A16_MXFP4": Precision.MXFP4,
}
_MIXED = "MIXED_PRECISION"


def _modelopt(settings: _Settings) -> Format:
    named = settings.get("quant_algo")
    if named is None:
        return _by_groups(settings)
    algorithm = str(named).upper()
    if algorithm != _MIXED:
        precision = _algorithm(algorithm)
        return _all_but(precision, precision.bytes, _skipped(settings))
    layers = settings.get("quantized_layers")
    if not isinstance(layers, dict) or not layers:
        raise UnknownFormat("mixed quantisation without quantized_layers")
    widths = {
        name: _algorithm(str(each.get("quant_algo")).upper()) if isinstance(each, dict) else Precision.BF16
        for name, each in layers.items()
    }
    found = [
        (_Skipped([name for name, own in widths.items() if own is precision]), precision.bytes, precision)
        for precision in dict.fromkeys(widths.values())
    ]
    return _first_of(found, _skipped(settings))


def _algorithm(name: str) -> Precision:
    if name not in _ALGORITHMS:
        raise UnknownFormat(f"quant_algo {name}")
    return _ALGORITHMS[name]


def _bits_and_bytes(settings: _Settings) -> Format:
    skipped = _skipped(settings)
    if settings.get("load_in_8bit"):
        return _all_but(Precision.INT8, Precision.INT8.bytes, skipped)
    if settings.get("load_in_4bit"):
        # A scale of 32 bits for each 64 weights, which double quantisation makes one of 8.
        scale = 1 if settings.get("bnb_4bit_use_double_quant") else 4
        return _all_but(Precision.INT4, 0.5 + scale / 64, skipped)
    raise UnknownFormat("bitsandbytes with neither load_in_4bit nor load_in_8bit")


_TORCHAO = (
    ("int4weight", Precision.INT4),
    ("int8weight", Precision.INT8),
    ("float8weight", Precision.FP8),
)


def _torchao(settings: _Settings) -> Format:
    kind: JsonValue = settings.get("quant_type")
    if isinstance(kind, dict):
        if set(kind) != {"default"}:
            raise UnknownFormat("torchao with other settings for some modules")
        kind = kind["default"]
    name = str(kind.get("_type") if isinstance(kind, dict) else kind)
    # Such as Int8DynamicActivationInt4WeightConfig, or int4_weight_only: the weight's type comes last.
    words = name.lower().replace("_", "")
    for ending, precision in _TORCHAO:
        if ending in words:
            return _all_but(precision, precision.bytes, _skipped(settings))
    raise UnknownFormat(f"torchao {name}")


_QUARK = {
    "fp8_e4m3": Precision.FP8,
    "fp4": Precision.MXFP4,
    "int8": Precision.INT8,
    "int4": Precision.INT4,
    "uint4": Precision.INT4,
}


def _quark(settings: _Settings) -> Format:
    if settings.get("layer_quant_config") or settings.get("layer_type_quant_config"):
        raise UnknownFormat("quark with other settings for some layers")
    general = settings.get("global_quant_config")
    weight = general.get("weight") if isinstance(general, dict) else None
    kind = str(weight.get("dtype") if isinstance(weight, dict) else None)
    if kind not in _QUARK:
        raise UnknownFormat(f"quark weights of type {kind}")
    return _all_but(_QUARK[kind], _QUARK[kind].bytes, _skipped(settings))


def _auto_round(settings: _Settings) -> Format:
    if settings.get("extra_config"):
        raise UnknownFormat("auto-round with other settings for some layers")
    if str(settings.get("data_type") or "int") != "int":
        raise UnknownFormat(f"auto-round weights of type {settings.get('data_type')}")
    return _grouped_integers(settings)


_READERS: tuple[tuple[tuple[str, ...], Callable[[_Settings], Format]], ...] = (
    (("mxfp4", "gpt-oss-mxfp4"), _experts_only(Precision.MXFP4)),
    (("experts-int8",), _experts_only(Precision.INT8)),
    (("fp8", "fbgemm-fp8"), _eight_bit_floats),
    (("awq", "gptq", "auto-awq", "auto-gptq", "awq-marlin", "gptq-marlin"), _grouped_integers),
    (("compressed-tensors",), _compressed_tensors),
    (("modelopt", "modelopt-fp4", "modelopt-mixed", "modelopt-mxfp8"), _modelopt),
    (("bitsandbytes",), _bits_and_bytes),
    (("torchao",), _torchao),
    (("quark",), _quark),
    (("auto-round", "inc", "intel/auto-round"), _auto_round),
)


def _integers(
    bits: int | None, group_size: int | None, *, symmetric: bool = False
) -> tuple[float, Precision]:
    if bits == 8:
        return Precision.INT8.bytes, Precision.INT8
    if bits != 4:
        raise UnknownFormat(f"{bits}-bit integers" if bits is not None else "integers of unknown width")
    if group_size is None:
        return Precision.INT4.bytes, Precision.INT4
    # A scale of 16 bits and, if not symmetric, a zero point of 4 for each group; a whole row where it is -1.
    of_group = 2.0 if symmetric else 2.5
    return 0.5 + (of_group / group_size if group_size > 0 else 0.0), Precision.INT4


def _number(settings: Mapping[str, JsonValue], *names: str) -> int | None:
    for name in names:
        value = settings.get(name)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


_SKIPPED = (
    "ignore",
    "ignored_layers",
    "modules_to_not_convert",
    "exclude_modules",
    "exclude",
    "llm_int8_skip_modules",
)


def _skipped(settings: _Settings) -> _Skipped:
    listed = [value for name in _SKIPPED if isinstance(value := settings.get(name), list)]
    return _Skipped([str(pattern) for value in listed for pattern in value])


def _all_but(precision: Precision, width: float, skipped: _Skipped, *, output: bool = False) -> Format:
    """Everything in the layers; the output layer only where it is said."""
    return Format(
        precision,
        lambda name: SIXTEEN_BITS if skipped(name) or (name == "lm_head" and not output) else width,
    )


class _Skipped:
    """Whether a module is one of those that patterns name: by part of its path, with `*`, or with ``re:``."""

    def __init__(self, patterns: list[str]) -> None:
        self.patterns = patterns
        self._plain = {pattern for pattern in patterns if "*" not in pattern and not _is_expression(pattern)}
        expressions = [pattern[3:] for pattern in patterns if _is_expression(pattern)]
        globs = [translate(pattern) for pattern in patterns if "*" in pattern and not _is_expression(pattern)]
        try:
            self._expressions = [re.compile(each) for each in [*expressions, "|".join(globs)] if each]
        except re.error as error:
            raise UnknownFormat("quantisation with an unreadable pattern") from error

    def __call__(self, name: str) -> bool:
        if not self.patterns:
            return False
        names = {name, *(name.replace(ours, other) for ours, other in _OTHER_NAMES)}
        if _EXPERTS in name:
            ending = name[name.rindex(".") :]
            names |= {each.removesuffix(ending) + _OTHER_PROJECTIONS.get(ending, ending) for each in names}
        return any(self._has(prefix + each) for each in names for prefix in _PREFIXES)

    def _has(self, path: str) -> bool:
        parts = path.split(".")
        runs = (
            ".".join(parts[first:last])
            for first in range(len(parts))
            for last in range(first + 1, len(parts) + 1)
        )
        if self._plain and any(run in self._plain for run in runs):
            return True
        return any(expression.match(path) for expression in self._expressions)


def _is_expression(pattern: str) -> bool:
    return pattern.startswith("re:")
