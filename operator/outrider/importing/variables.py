"""``$(NAME)`` in words and variables of a container, as Kubernetes replaces it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.flags import Flags

LONGEST = 16_384
"""Characters of a text with values in it. Variables that name each other could double it again and again."""
_REFERENCE = re.compile(r"\$(?:\$|\(([^()$]*)\))")
_UNKNOWN = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_FIELDS: Mapping[str, str] = {
    "tensor-parallel-size": "spec.parallelism.tensor",
    "pipeline-parallel-size": "spec.parallelism.pipeline",
    "data-parallel-size": "spec.parallelism.data",
    "port": "spec.engine.port",
    "served-model-name": "spec.model.servedName",
    "max-model-len": "spec.model.maxLength",
    "revision": "spec.model.revision",
}
"""Flag -> the field that has its value. Kubernetes replaces nothing in a field."""


def expanded(written: str, known: Mapping[str, str]) -> str:
    """With each ``$(NAME)`` of a known variable replaced, and ``$$`` read as ``$``.

    Raises:
        ImportRefused: it becomes too long.
    """
    named = [known[match[1]] for match in _REFERENCE.finditer(written) if match[1] in known]
    if named and len(written) + sum(map(len, named)) > LONGEST:
        raise ImportRefused(
            f"a text with $(NAME) becomes longer than {LONGEST} characters; write its values out, in less"
        )
    return _REFERENCE.sub(lambda match: known.get(match[1], match[0]) if match[1] else "$", written)


def without_value(value: object) -> str | None:
    """Why Outrider cannot read a value with ``$(NAME)`` in it; None where it has none."""
    if isinstance(value, list):
        return next((why for each in value if (why := without_value(each)) is not None), None)
    if not isinstance(value, str) or (match := _UNKNOWN.search(value)) is None:
        return None
    return (
        f"$({match[1]}) gets its value from a Secret, a ConfigMap or a field, so the source does not have it"
    )


def drop_without_value(flags: Flags, findings: Findings) -> None:
    """Take the flags of fields out of ``flags`` whose value the source does not have."""
    for flag, field in _FIELDS.items():
        value = flags.get(flag)
        why = without_value(value)
        if why is None:
            continue
        findings.dropped(f"--{flag}", f"{why}; set {field}")
        kept = [each for each in value if without_value(each) is None] if isinstance(value, list) else []
        if kept:
            flags[flag] = kept
        else:
            del flags[flag]
