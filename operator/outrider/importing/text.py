"""A SpeculativeModel as text that people read: YAML, with comments above the parts that need a decision."""

from __future__ import annotations

import yaml

from outrider.importing.conversion import Imported
from outrider.plan.overlay import Json


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def text_of(imported: Imported) -> str:
    """One YAML document."""
    manifest = imported.manifest
    head = {key: value for key, value in manifest.items() if key != "spec"}
    lines = [_dumped(head), "spec:\n"]
    spec = manifest["spec"]
    assert isinstance(spec, dict)
    for name, part in spec.items():
        lines += [f"  # {comment}\n" for comment in imported.comments.get(name, ())]
        lines.append("".join(f"  {line}\n" for line in _dumped({name: part}).splitlines()))
    return "".join(lines)


def _dumped(part: Json) -> str:
    return yaml.dump(part, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
