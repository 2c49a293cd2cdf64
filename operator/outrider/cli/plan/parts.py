"""The parts of a question to ``outrider plan``: model, drafter, GPU, throughputs and flags of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from outrider.api.engine_args import Scalar, loads_otherwise
from outrider.api.mistakes import did_you_mean
from outrider.api.spec import Spec
from outrider.api.speculative_config import OWN_VOCABULARY
from outrider.cli.common.files import read_text
from outrider.cli.common.output import CommandError
from outrider.cli.plan.options import Options
from outrider.performance.tables_file import TableError, parse_tables, select
from outrider.performance.throughput_table import ThroughputTable
from outrider.plan.gpu_labels import PRODUCT, selected, selected_slice
from outrider.sizing.architecture import Architecture, Precision
from outrider.sizing.drafters import (
    DraftingModel,
    block_drafter,
    draft_model,
    eagle_head,
    prediction_layer,
    unknown_size,
    without_weights,
)
from outrider.sizing.gpus import GPUS, Gpu, gpu_named, gpu_of_product
from outrider.sizing.hf_config import QUANTIZATION_FILES, UNKNOWN_WEIGHTS, ConfigError, read_config
from outrider.sizing.models import KNOWN_MODELS, as_published, known_model, same_model
from outrider.sizing.names import precision_in
from outrider.sizing.sources import Evidence, Source
from outrider_protocol.methods import TRAITS, Drafter, Kind, Method, Tunability

_SERVED = tuple(m for m in Method if TRAITS[m].tunability is not Tunability.REFUSED)
_PLACEHOLDER = "hf://ORGANISATION/"
_CONFIG = "config.json"


def uri_of_model(options: Options, spec: Spec | None) -> str:
    """The URI of the model, as a manifest has it."""
    if spec is not None:
        return spec.model.uri
    name = options.model
    if name is None or _is_file(name):
        path = Path(name) if name is not None else _config(options)
        assert path is not None
        return _PLACEHOLDER + (path.resolve().parent.name or "MODEL")
    uri = _uri_of(name)
    known = same_model(uri)
    if options.weights is None or known is None or options.weights is known.architecture.precision:
        return uri
    # Other weights than those of that name: another checkpoint.
    return f"{_PLACEHOLDER}{known.architecture.name}-{options.weights.upper()}"


def _uri_of(name: str) -> str:
    if "://" in name:
        return name
    if "/" in name:
        return f"hf://{name}"
    known = same_model(name)
    if known is None or not as_published(known):
        return _PLACEHOLDER + name
    return known.uri


def target_of(options: Options, uri: str) -> tuple[Architecture, Source]:
    """The model's dimensions, and their source."""
    path = _config(options) or (Path(options.model) if options.model and _is_file(options.model) else None)
    name = options.model if options.file is None and options.model else uri
    if path is None:
        found, where = _architecture(name, what="model", option="--config")
    else:
        found, where = _architecture_in(path)
    said = precision_in(uri)
    if path is not None and said is not None and found.precision is Precision.BF16 and not found.unknown:
        found = replace(found, precision=said)
    found = replace(found, name=uri.rstrip("/").rsplit("/", 1)[-1])
    if options.weights is not None and (options.weights is not found.precision or found.unknown):
        known = tuple(what for what in found.unknown if not what.startswith(UNKNOWN_WEIGHTS))
        found = replace(found, precision=options.weights, weight_bytes_by_part=None, unknown=known)
    return found, Source(f"model {found.name}", Evidence.READ, where)


def _config(options: Options) -> Path | None:
    """The file that --config names; of a folder, the config.json in it."""
    path = options.config
    if path is None or not path.is_dir():
        return path
    if not (path / _CONFIG).is_file():
        raise CommandError(f"--config: the folder {path} has no {_CONFIG}; name that of the model")
    return path / _CONFIG


def _architecture_in(path: Path) -> tuple[Architecture, str]:
    name = str(path)
    try:
        return read_config(read_text(path), name=name, quantization=_beside(path)), name
    except ConfigError as error:
        raise CommandError(str(error)) from error


def _architecture(name: str, *, what: str, option: str) -> tuple[Architecture, str]:
    """Dimensions of a model and their source: by its name, or from the file of that name."""
    if _is_file(name):
        return _architecture_in(Path(name))
    known = known_model(name)
    if known is None:
        names = [one.architecture.name for one in KNOWN_MODELS]
        near = did_you_mean(name, names) or f"known are {', '.join(names)}. "
        raise CommandError(
            f"{what} {name} is not known; {near}For another {what}, give its config.json with {option}"
        )
    return known.architecture, known.source


def _beside(path: Path) -> str | None:
    """Text of the file that describes the quantisation of the checkpoint; None: there is none."""
    found = (path.with_name(name) for name in QUANTIZATION_FILES)
    return next((read_text(each) for each in found if each.is_file()), None)


def method_of(options: Options, spec: Spec | None, uri: str) -> tuple[Method, str | None]:
    """The method, and the drafter's URI as a manifest has it."""
    if spec is not None:
        drafter = spec.speculation.drafter
        method, drafter_uri = spec.speculation.method, None if drafter is None else drafter.uri
    else:
        method, drafter_uri = _new_method(options, uri)
    if TRAITS[method].is_head and options.drafter is not None and _is_file(options.drafter):
        raise CommandError(f"--drafter: the size of an {method} head follows from the model; give its name")
    if TRAITS[method].tunability is Tunability.REFUSED:
        raise CommandError(f"Outrider launches no engine with method {method}; use {', '.join(_SERVED)}")
    if method is Method.MTP and drafter_uri is None and options.config is None:
        _check_layers(uri, "--method" if spec is None else "spec.speculation.method")
    return method, drafter_uri


def _check_layers(uri: str, field: str) -> None:
    """Refuse mtp for a known model without a layer for next tokens. field: that says the method."""
    known = same_model(uri)
    if known is not None and not known.predicts:
        head = "ngram" if known.drafter_uri is None else "eagle3"
        raise CommandError(
            f"{field}: vLLM refuses mtp with {known.architecture.name}, because the model has no layer for "
            f"next tokens; use {head}, or name a drafter for it"
        )


def _new_method(options: Options, uri: str) -> tuple[Method, str | None]:
    known = same_model(uri)
    published = None if known is None else known.drafter_uri
    given = options.drafter
    if given is None:
        own = Method.MTP if known is not None and known.predicts else Method.NGRAM
        method = options.method or (Method.EAGLE3 if published is not None else own)
        if TRAITS[method].kind is Kind.MODEL:
            raise CommandError(f"method {method} needs a drafter; name it with --drafter")
        if method is Method.EAGLE3 and published is not None:
            return method, published
        return method, f"{_PLACEHOLDER}DRAFTER" if TRAITS[method].drafter is Drafter.REQUIRED else None
    method = options.method or (Method.EAGLE3 if "eagle3" in given.lower() else Method.DRAFT_MODEL)
    if TRAITS[method].drafter is Drafter.FORBIDDEN:
        raise CommandError(f"--drafter: method {method} has no drafter; leave it out")
    return method, f"{_PLACEHOLDER}DRAFTER" if _is_file(given) else _uri_of(given)


def drafter_of(
    method: Method, target: Architecture, name: str | None, spec: Spec | None
) -> tuple[DraftingModel, str | None]:
    """The drafter, and a warning about it. spec: that of the manifest, where one is given."""
    if TRAITS[method].is_head:
        return eagle_head(method, target), None if name is None else _whole_model(method, name)
    if method is Method.MTP:
        return prediction_layer(target), None
    if TRAITS[method].kind in (Kind.NOTHING, Kind.TEXT):
        return without_weights(method), None
    if TRAITS[method].kind is not Kind.MODEL:
        return _block_drafter(method, name), None if name is None else _whole_model(method, name)
    if name is None:
        return without_weights(method), None
    found, where = _architecture(name, what="drafter", option="--drafter")
    warning = None
    mapped = spec is not None and bool(spec.speculation.config.get(OWN_VOCABULARY))
    if found.vocabulary != target.vocabulary and not mapped:
        warning = (
            f"the drafter has {found.vocabulary} tokens and the model {target.vocabulary}: vLLM takes it "
            f"with spec.speculation.config.{OWN_VOCABULARY}: true"
        )
    return replace(draft_model(found, where), method=method), warning


def _whole_model(method: Method, name: str) -> str | None:
    """A warning where a head or block drafter is wanted, and the drafter is known as a whole model."""
    known = None if _is_file(name) else known_model(name)
    if known is None:
        return None
    return (
        f"the drafter {known.architecture.name} is a whole model and no drafter for {method}, so vLLM "
        "refuses it: use method draft_model"
    )


def _block_drafter(method: Method, name: str | None) -> DraftingModel:
    if name is None or (not _is_file(name) and known_model(name) is None):
        return unknown_size(method, f"{method} drafter")
    return block_drafter(method, *_architecture(name, what="drafter", option="--drafter"))


def gpu_of(options: Options, spec: Spec | None) -> Gpu:
    """The GPU by name or by the manifest's node selector; the user's own numbers take precedence."""
    found = _gpu_by_name(options, spec)
    own = {
        "memory_bytes": options.gpu_memory and options.gpu_memory * 1e9,
        "bytes_per_second": options.gpu_bandwidth and options.gpu_bandwidth * 1e12,
        "flops": options.gpu_tflops and options.gpu_tflops * 1e12,
    }
    given = {name: value for name, value in own.items() if value is not None}
    if found is None and len(given) < len(own):
        raise CommandError(
            "say which GPU with --gpu, or its --gpu-memory, --gpu-bandwidth and --gpu-tflops; "
            f"known are {', '.join(gpu.name for gpu in GPUS)}"
        )
    if found is None:
        return Gpu("own", given["memory_bytes"], given["bytes_per_second"], given["flops"], None, "as given")
    return Gpu(
        found.name,
        given.get("memory_bytes", found.memory_bytes),
        given.get("bytes_per_second", found.bytes_per_second),
        given.get("flops", found.flops),
        None if "flops" in given else found.flops_8_bit,
        f"as given, else {found.source}" if given else found.source,
    )


def _gpu_by_name(options: Options, spec: Spec | None) -> Gpu | None:
    if options.gpu is not None:
        found = gpu_named(options.gpu)
        if found is None and None in (options.gpu_memory, options.gpu_bandwidth, options.gpu_tflops):
            names = [gpu.name for gpu in GPUS]
            near = did_you_mean(options.gpu, names) or f"known are {', '.join(names)}. "
            others = "For another GPU, give --gpu-memory, --gpu-bandwidth and --gpu-tflops"
            raise CommandError(f"GPU {options.gpu} is not known; {near}{others}")
        return found
    if spec is None or selected_slice(spec) is not None:  # A MIG instance has a part of the GPU's speed, too.
        return None
    label = selected(spec, PRODUCT)
    return None if label is None else gpu_of_product(label)


def measured_table(options: Options) -> ThroughputTable | None:
    """The table of measured throughputs that was named; None: none was."""
    if options.tables is None:
        if options.table is not None:
            raise CommandError("--table names a table of a file; name the file with --tables")
        return None
    try:
        tables = parse_tables(read_text(options.tables), str(options.tables))
        chosen = select(tables, options.table)
    except TableError as error:
        raise CommandError(str(error)) from error
    if len(chosen) > 1:
        raise CommandError(f"{options.tables} has {len(chosen)} tables; name one with --table")
    if 0 not in chosen[0].candidates:
        raise CommandError(f"table {chosen[0].name} has no column for K=0; measure it")
    return chosen[0]


def _is_file(name: str) -> bool:
    return name.endswith(".json") or Path(name).is_file()


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
