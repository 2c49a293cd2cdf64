"""Flags of vLLM as fields of the spec: parallelism, port, and ``spec.engine.args`` for the rest."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue, ValidationError

from outrider.api.engine import Engine
from outrider.api.engine_args import MAX_FLAGS
from outrider.api.engines import ADMISSIONS, RuntimeKind
from outrider.api.json_object import Json
from outrider.api.mistakes import validation_message
from outrider.api.resource import SpeculativeModel
from outrider.importing.findings import Findings, is_secret
from outrider.importing.flags import Flags
from outrider.importing.workload import whole
from outrider.plan import ControlKeys, PlanSettings, plan
from outrider.runtimes import RUNTIMES

_SIZES: Mapping[str, str] = {
    "tensor-parallel-size": "tensor",
    "pipeline-parallel-size": "pipeline",
    "data-parallel-size": "data",
}
_MAX_SIZE = 64
_KEYS = ControlKeys(private="", public="")
_PORTS = range(1024, 65536)
_DEFAULT_PORT = int(Engine.model_fields["port"].default)
_RAY = "distributed-executor-backend"


def parallelism(flags: Flags, nodes: int, findings: Findings) -> dict[str, int]:
    """``spec.parallelism`` without its defaults; its flags are taken out of ``flags``. nodes: per replica."""
    sizes = dict[str, int]()
    for flag, name in _SIZES.items():
        if flag not in flags:
            continue
        size = whole(flags.pop(flag))
        if size is None or not 1 <= size <= _MAX_SIZE:
            findings.dropped(
                f"--{flag}", f"Outrider takes a number from 1 to {_MAX_SIZE}; set spec.parallelism.{name}"
            )
        elif size > 1:
            sizes[name] = size
    if flags.get("enable-expert-parallel") is True:
        sizes["expert"] = True
    flags.pop("enable-expert-parallel", None)
    if nodes > 1:
        sizes["nodes"] = nodes
        if flags.pop(_RAY, None) is not None:
            findings.dropped(f"--{_RAY}", "vLLM's own processes join the nodes of a replica, and not Ray")
    return sizes


def port(flags: Flags, findings: Findings) -> int | None:
    """``spec.engine.port``; None for its default."""
    if "port" not in flags:
        return None
    number = whole(flags.pop("port"))
    if number in _PORTS:
        return None if number == _DEFAULT_PORT else number
    findings.dropped(
        "--port", "engines run without privileges, on ports from 1024; clients use the Service, on port 80"
    )
    return None


def engine_args(flags: Flags, kind: RuntimeKind, version: str, findings: Findings) -> Json:
    """``spec.engine.args``: every flag that admission, and the parser of this release, take."""
    args: Json = {}
    for count, (name, value) in enumerate(flags.items()):
        beyond = f"Outrider takes {MAX_FLAGS} flags" if count >= MAX_FLAGS else None
        why = beyond or _refusal(name, value, kind, version)
        if why is not None:
            findings.dropped(f"--{name}", why)
        else:
            args[name] = value
    return args


def _refusal(name: str, value: JsonValue, kind: RuntimeKind, version: str) -> str | None:
    table, owned = RUNTIMES[kind].flags, ADMISSIONS[kind].owned_flags
    owner = table.full_name(name)
    if owner in owned:
        return f"spec.engine.args does not take it; {owned[owner]}"
    if _is_secret(name, value):
        return "its value looks secret; pass it as a variable from a Secret in spec.podTemplate"
    if not table.known(name, version):
        alike = table.nearest(name, version)
        meant = "" if alike is None else f" (did you mean {alike}?)"
        return f"{kind} {version} has no such flag{meant}, and ends where it gets one; leave it out"
    try:
        model = SpeculativeModel.model_validate(_alone(name, value, kind, version))
    except ValidationError as error:
        return validation_message(error, _alone(name, value, kind, version))
    problems = plan(model, settings=PlanSettings(), keys=_KEYS).problems
    return problems[0][1] if problems else None


def _alone(name: str, value: JsonValue, kind: RuntimeKind, version: str) -> Json:
    """A model that has nothing but this flag, so that what is wrong with it is the flag."""
    spec: Json = {
        "model": {"uri": "hf://organisation/name"},
        "speculation": {"method": "none"},
        "engine": {"runtime": str(kind), "version": version, "args": {name: value}},
    }
    return {"metadata": {"name": "model"}, "spec": spec}


def _is_secret(name: str, value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(_is_secret(key, part) for key, part in value.items())
    if isinstance(value, list):
        return any(_is_secret(name, part) for part in value)
    return is_secret(name, value)
