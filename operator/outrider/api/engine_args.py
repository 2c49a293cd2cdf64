"""``spec.engine.args``: the engine's own flags. `outrider.api.owned_flags` has the refused ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from outrider.api.owned_flags import properties
from outrider.api.text import shortened

Scalar = bool | int | float | str

MAX_FLAGS = 256
"""Flags of one model."""

_MEMORY_FLAGS = (
    "quantization",
    "load-format",
    "dtype",
    "hf-overrides",
    "cpu-offload-gb",
    "offload-backend",
    "kv-cache-dtype",
    "kv-cache-memory-bytes",
    "num-gpu-blocks-override",
    "decode-context-parallel-size",
    "dcp",
)
"""With these another part of weights or cache lies on the GPU than the checkpoint says."""


def loads_otherwise(args: Iterable[str]) -> bool:
    """Whether flags, shortened or with a JSON path too, make an estimate of memory void."""
    names = [name.replace("_", "-").partition(".")[0] for name in args]
    return any(flag.startswith(name) for name in names for flag in _MEMORY_FLAGS)


_TRANSFER_FLAGS = ("kv-transfer-config", "kv-offloading-size")


def moves_cache(args: Iterable[str]) -> bool:
    """Whether flags, shortened or with a JSON path too, give the engine a KV connector."""
    names = [name.replace("_", "-").partition(".")[0] for name in args]
    return any(flag.startswith(name) for name in names for flag in _TRANSFER_FLAGS)


def only_scalars(owner: str) -> Callable[[object], object]:
    """A validator that refuses the first value which is neither a scalar nor a list of scalars.

    It runs before types are looked at: pydantic would keep an error for each entry and each form of `Scalar`.
    owner: the field, as the complaint names it.
    """

    def check(args: object) -> object:
        for name, value in args.items() if isinstance(args, Mapping) else ():
            entries = value if isinstance(value, list) else (value,)
            if not all(isinstance(entry, Scalar) for entry in entries):
                field = f"{owner}.{shortened(str(name), 60)}"
                raise ValueError(f"{field}: must be true or false, a number, a text, or a list of these")
        return args

    return check


def _objects_as_json(args: object) -> object:
    """Objects as the JSON text that vLLM's parser takes; vLLM does so with its own ``--config`` file.

    Runs before types are looked at, on what is bounded already. A path such as ``compilation-config.sizes``
    is a place in JSON, where a list may hold anything.
    """
    if not isinstance(args, Mapping):
        return args
    return {name: _as_json(name, value) for name, value in args.items()}


def _as_json(name: object, value: object) -> object:
    if value is None:
        field = f"spec.engine.args.{shortened(str(name), 60)}"
        raise ValueError(f"{field}: null says nothing; leave the key out for vLLM's default")
    if isinstance(value, Mapping):
        return _text(name, value)
    if not isinstance(value, list) or all(isinstance(entry, Scalar) for entry in value):
        return value
    if "." in str(name):
        return _text(name, value)
    return [_text(name, entry) if isinstance(entry, Mapping) else entry for entry in value]


def _text(name: object, value: object) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        field = f"spec.engine.args.{shortened(str(name), 60)}"
        raise ValueError(f"{field}: holds what JSON cannot say; write dates and the like as texts") from error


def spelling_mistakes(args: Mapping[str, object]) -> Iterator[str]:
    """What is wrong with the names of flags, whatever the engine."""
    written = dict[str, str]()
    for name in args:
        first = written.setdefault(_dashes(name), name)
        if first != name:
            shown, other = shortened(first, 60), shortened(name, 60)
            yield f"spec.engine.args: {shown} and {other} are one flag; leave one of them out"
        yield from _mistakes_in(name)


def _mistakes_in(name: str) -> Iterator[str]:
    """The API server sees declared names only, so these become a condition."""
    shown, bare = shortened(name, 60), name.lstrip("-")
    if not _NAME.fullmatch(name) and _NAME.fullmatch(bare):
        yield f"spec.engine.args: write {shown} without leading dashes: {shortened(bare, 60)}"
    elif not _NAME.fullmatch(name):
        yield (
            f"spec.engine.args: {shown!r} is not a flag; write letters, digits, '-', '_' and '.', such as "
            "max-num-seqs"
        )


def _dashes(name: str) -> str:
    """The spelling that two keys of one flag share; what follows the first dot is a path in JSON."""
    head, dot, path = name.partition(".")
    return f"{head.replace('_', '-')}{dot}{path}"


_SCHEMA = {
    "type": "object",
    "maxProperties": MAX_FLAGS,
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": properties(),
}

_NAME = re.compile("[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}")
EngineArgs = Annotated[
    dict[str, Scalar | list[Scalar]],
    Field(max_length=MAX_FLAGS),
    BeforeValidator(only_scalars("spec.engine.args")),
    BeforeValidator(_objects_as_json),  # The last of these runs first.
    WithJsonSchema(_SCHEMA),
]
