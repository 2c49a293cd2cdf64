"""``spec.engine.args``: vLLM's own flags, without those that Outrider sets itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from outrider.api.base import Rule, RulesBroken
from outrider.api.text import shortened

Scalar = bool | int | float | str

MAX_FLAGS = 256
"""Flags of one model."""

OWNED_FLAGS: dict[str, str] = {
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
    "ssl-keyfile": "leave it out; probes and the control API speak plain HTTP: end TLS before the Service",
    "ssl-certfile": "leave it out; probes and the control API speak plain HTTP: end TLS before the Service",
    "disable-log-stats": "leave it out; tuning reads the engine's metrics",
    "root-path": "leave it out; probes and the control API use the root path",
}
"""Flag without dashes -> what to do instead. The same flag with underscores is refused too."""

POOLING_FLAGS: dict[str, tuple[str, ...]] = {
    "runner": ("auto", "generate", "draft"),
    "convert": ("auto", "none"),
    "task": ("auto", "generate", "transcription", "draft"),
}
"""Flag -> the values with which a model generates tokens. With another one it gives embeddings or scores."""

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


def pools(args: Mapping[str, Scalar | list[Scalar]]) -> bool:
    """Whether flags make the model give embeddings or scores in place of tokens."""
    return any(args.get(flag, values[0]) not in values for flag, values in POOLING_FLAGS.items())


POOLS = " || ".join(
    f"(has(self.engine.args.{flag}) && !(self.engine.args.{flag} in {list(values)}))"
    for flag, values in POOLING_FLAGS.items()
)
"""`pools` for a spec, as the API server reads it."""


def spellings(flag: str) -> tuple[str, ...]:
    """Every way in which vLLM's parser takes this flag."""
    return (flag,) if "-" not in flag else (flag, flag.replace("-", "_"))


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


def _check(args: dict[str, Scalar | list[Scalar]]) -> dict[str, Scalar | list[Scalar]]:
    written = dict[str, str]()
    broken = list[str]()
    for name in args:
        first = written.setdefault(_dashes(name), name)
        if first != name:
            shown, other = shortened(first, 60), shortened(name, 60)
            broken.append(f"spec.engine.args: {shown} and {other} are one flag; leave one of them out")
        broken += _mistakes_in(name)
    if broken:
        raise RulesBroken(broken)
    return args


def _mistakes_in(name: str) -> Iterator[str]:
    """The API server sees declared names only, so for other names this becomes a condition."""
    shown, bare = shortened(name, 60), name.lstrip("-")
    owner = _owned_flag(name)
    if owner is not None:
        yield _message(name, OWNED_FLAGS[owner])
    elif not _NAME.fullmatch(name) and _NAME.fullmatch(bare):
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


def _owned_flag(name: str) -> str | None:
    """The owned flag that vLLM's parser would read as ``name``: itself, shortened, or with a JSON path.

    The API server sees whole names only; the other two become a condition.
    """
    canonical = name.replace("_", "-").partition(".")[0].removeprefix("no-")
    if canonical in OWNED_FLAGS:
        return canonical
    return next((flag for flag in OWNED_FLAGS if flag.startswith(canonical)), None)


def _message(flag: str, remedy: str) -> str:
    return f"spec.engine.args.{flag} is set by Outrider: {remedy}"


def _escaped(name: str) -> str:
    """A property name as CEL spells it."""
    return name.replace("__", "__underscores__").replace("-", "__dash__")


def _wire_rules() -> list[dict[str, str]]:
    return [
        Rule(f"!has(self.{_escaped(spelling)})", _message(spelling, remedy)).to_wire()
        for flag, remedy in OWNED_FLAGS.items()
        for spelling in spellings(flag)
    ]


# CEL sees declared properties only, so each owned flag is declared in order to be refused by name.
_SCHEMA = {
    "type": "object",
    "maxProperties": MAX_FLAGS,
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        spelling: {"x-kubernetes-int-or-string": True, "description": f"Refused: {remedy}."}
        for flag, remedy in OWNED_FLAGS.items()
        for spelling in spellings(flag)
    }
    | {
        flag: {"x-kubernetes-int-or-string": True, "description": f"With speculation {' or '.join(values)}."}
        for flag, values in POOLING_FLAGS.items()
    },
    "x-kubernetes-validations": _wire_rules(),
}

_NAME = re.compile("[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}")
EngineArgs = Annotated[
    dict[str, Scalar | list[Scalar]],
    Field(max_length=MAX_FLAGS),
    BeforeValidator(only_scalars("spec.engine.args")),
    BeforeValidator(_objects_as_json),  # The last of these runs first.
    AfterValidator(_check),
    WithJsonSchema(_SCHEMA),
]
