"""No reader of foreign text passes the registry by."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import outrider

ROOT = Path(outrider.__file__).parent
_PARSERS = {
    "loads",
    "load",
    "load_all",
    "safe_load",
    "safe_load_all",
    "from_json",
    "model_validate_json",
    "validate_json",
    "json",
}
"""Methods and functions that make values of a text."""

_A_PERSONS_OWN = ("cli", "performance", "bench", "sizing", "verify")
"""Commands that a person runs on files and clusters of her own."""
ELSEWHERE: Mapping[str, str] = {
    "foreign/reading.py": "the reader itself",
    "cluster/client.py": "answers of the API server; what it holds is read by its own readers",
    "cluster/lists.py": "pages of the API server's lists, bounded by their bytes",
    "controller/kept_fields.py": "what the operator itself put together",
    "importing/documents.py": "a file of `outrider import`, whose text and values its reader bounds",
    "importing/flags.py": "one flag of that file",
    "importing/injection.py": "one flag of a file of `outrider inject`, which the same reader bounds",
    "importing/speculation.py": "one flag of that file",
    "runtimes/vllm/additions.py": "flags of a spec, which was bounded as a whole before",
    "controller/tune/tuning_loop.py": "the tuner store, which reads by its own reader",
    "cluster/term_lock.py": "refusals of the API server",
    "plan/network_peers.py": "a setting of the operator, which its administrator writes",
    "telemetry/prometheus_http.py": "Prometheus' answers, which are cut at their bytes as they arrive",
}
"""Files outside of it that may parse, and why."""


def parsed(module: Path) -> Iterator[int]:
    """Lines that parse a text."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _PARSERS:
                yield node.lineno


def test_only_the_reader_parses_foreign_text() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] not in _A_PERSONS_OWN and (lines := list(parsed(path)))
    }

    assert {path: lines for path, lines in found.items() if path not in ELSEWHERE} == {}
    assert set(ELSEWHERE) == set(found), "a file that parses nothing any more needs no exception"
