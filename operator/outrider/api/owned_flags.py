"""Flags of ``spec.engine.args`` that Outrider sets itself, by the kind of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from outrider.api.base import Rule
from outrider.api.engines import ADMISSIONS, RuntimeKind
from outrider.api.text import shortened

_SCALAR: Mapping[str, object] = {"x-kubernetes-int-or-string": True}
_Args = Mapping[str, bool | int | float | str | list[bool | int | float | str]]


def owned_flag(name: str, kind: RuntimeKind) -> str | None:
    """The owned flag that the engine's parser would read as ``name``: itself, shortened, or with a JSON path.

    The API server sees whole names only; the other two become a condition.
    """
    owned = ADMISSIONS[kind].owned_flags
    canonical = name.replace("_", "-").partition(".")[0].removeprefix("no-")
    if canonical in owned or not canonical:
        return canonical or None
    return next((flag for flag in owned if flag.startswith(canonical)), None)


def owned_in(args: _Args, kind: RuntimeKind) -> Iterator[str]:
    """The message of each flag that Outrider sets itself."""
    for name in args:
        owner = owned_flag(name, kind)
        if owner is not None:
            yield _message(shortened(name, 60), ADMISSIONS[kind].owned_flags[owner])


def wire_rules() -> list[dict[str, str]]:
    """The same for an engine, as the API server reads it."""
    return [
        Rule(
            f"!has(self.args) || self.runtime != '{kind}' || !has(self.args.{property_name(spelling)})",
            _message(spelling, remedy),
            ".args",
        ).to_wire()
        for kind, admission in ADMISSIONS.items()
        for flag, remedy in admission.owned_flags.items()
        for spelling in spellings(flag)
    ]


def properties() -> dict[str, dict[str, object]]:
    """The flags that rules name. CEL sees declared properties only."""
    found: dict[str, dict[str, object]] = {}
    for kind, admission in ADMISSIONS.items():
        said = {
            **{flag: f"Refused with {kind}: {remedy}." for flag, remedy in admission.owned_flags.items()},
            **{
                flag: f"With speculation in {kind} {' or '.join(map(_written, values))}."
                for flag, values in admission.generating.items()
            },
            **dict.fromkeys(admission.fixed_by, f"With {kind} an engine then keeps one K."),
        }
        for flag, text in said.items():
            for spelling in spellings(flag):
                form = {"type": "boolean"} if flag in admission.switches else _SCALAR
                before = found.get(spelling, {}).get("description")
                found[spelling] = {**form, "description": text if before is None else f"{before} {text}"}
    return found


def spellings(flag: str) -> tuple[str, ...]:
    """Every way in which parsers take this flag."""
    return (flag,) if "-" not in flag else (flag, flag.replace("-", "_"))


def property_name(name: str) -> str:
    """A property name as CEL spells it."""
    return name.replace("__", "__underscores__").replace("-", "__dash__")


def pools(args: _Args, kind: RuntimeKind) -> bool:
    """Whether flags make the model give embeddings or scores in place of tokens."""
    return any(
        args.get(spelling, values[0]) not in values
        for flag, values in ADMISSIONS[kind].generating.items()
        for spelling in spellings(flag)
    )


def pools_rule() -> str:
    """`pools` for a spec, as the API server reads it."""
    return " || ".join(
        f"(self.engine.runtime == '{kind}' && has({place}) && !({place} in [{_listed(values)}]))"
        for kind, admission in ADMISSIONS.items()
        for flag, values in admission.generating.items()
        for spelling in spellings(flag)
        for place in [f"self.engine.args.{property_name(spelling)}"]
    )


def _listed(values: tuple[str | bool, ...]) -> str:
    return ", ".join(_written(value) if isinstance(value, bool) else f"'{value}'" for value in values)


def _written(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else value


def _message(flag: str, remedy: str) -> str:
    return f"spec.engine.args.{flag} is set by Outrider: {remedy}"
