"""Random SpeculativeModels before a real API server: what it admits is planned, what it refuses is named.

Objects come out of the schema of the definition. Two thirds are a sound object of which one to three fields
were replaced, so that many pass the rules; the others are random from end to end. Nothing is stored: the API
server is asked by dry run, with all that it does at `kubectl apply`.

``python -m tests.cluster.admission_fuzz --objects 10000`` ends with 1 where something fell through.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from outrider.cluster.resources import MODELS
from outrider.controller.process import room_for_deep_json
from outrider.controller.stored import StoredModel
from outrider.plan import ControlKeys, PlanSettings, plan
from tests.unit.api.admission_cases import CASES, Json, base_manifest
from tests.unit.api.from_schema import Schema, admitted, schema_of

_KEYS = ControlKeys(private="private", public="public")
_FIELD = re.compile(r"\bspec\b|\bmetadata\b")
_SHOWN = 3

Manifest = dict[str, Any]
Replacement = tuple[tuple[str, ...], Any]


@dataclass
class Tally:
    """What became of the objects."""

    admitted: Counter[str] = field(default_factory=Counter)
    """By what the planner says: "planned", or the reason of its refusal."""
    refused: int = 0
    broken: list[str] = field(default_factory=list)
    """Objects that were admitted and could not be planned, or were refused without the name of a field."""

    def __str__(self) -> str:
        said = ", ".join(f"{count} {what}" for what, count in sorted(self.admitted.items()))
        head = f"{self.admitted.total()} admitted ({said}), {self.refused} refused, {len(self.broken)} broken"
        return "\n\n".join([head, *self.broken[:_SHOWN]])


def fuzz(objects: int, *, start: int = 0) -> Tally:
    """Put so many random objects before the API server of KUBECONFIG. start: of the random numbers."""
    tally = Tally()
    with _api_server() as http:

        @seed(start)
        @settings(
            max_examples=objects,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(manifests())
        def put_before(manifest: Manifest) -> None:
            # Within an example Hypothesis sets a limit of its own.
            with room_for_deep_json():
                judge(manifest, http.post, tally)

        put_before()
    return tally


def manifests() -> st.SearchStrategy[Manifest]:
    """Sound objects with one field replaced, those with two or three, and random ones: alike in number.

    The one field is of a part that the object has, since a target's field in a model is always refused.
    """
    spec = schema_of("spec")
    fields = list(_fields(spec))
    replacement = st.sampled_from(fields).flatmap(_replacement)
    sound = st.sampled_from([case.manifest for case in CASES if case.refused is None])

    def one_replaced(manifest: Manifest) -> st.SearchStrategy[Manifest]:
        near = [found for found in fields if _has(manifest["spec"], found[0][:-1])]
        of_it = st.sampled_from(near).flatmap(_replacement)
        return st.builds(_replaced, st.just(manifest), st.tuples(of_it))

    return st.one_of(
        sound.flatmap(one_replaced),
        st.builds(_replaced, sound, st.lists(replacement, min_size=2, max_size=3)),
        st.builds(_with_spec, admitted(spec)),
    )


def judge(manifest: Manifest, post: Callable[..., httpx.Response], tally: Tally) -> None:
    """One object: note what the API server says, and what the planner makes of what it would store."""
    try:
        answer = post(f"{MODELS.path('default')}?dryRun=All&fieldValidation=Strict", json=manifest)
    except ValueError:
        # Such as half of a surrogate pair: no client can send it.
        return
    if not answer.is_success:
        told = answer.json()
        tally.refused += 1
        if not (400 <= answer.status_code < 500 and _FIELD.search(_said(told))):
            tally.broken.append(f"HTTP {answer.status_code} names no field: {told} of {manifest}")
        return
    try:
        tally.admitted[planned(answer.json())] += 1
    except Exception:  # noqa: BLE001  whatever it is, the other objects are looked at
        tally.broken.append(f"{traceback.format_exc(limit=-4)}\nof {manifest}")


def planned(raw: Manifest) -> str:
    """What a pass of the operator says of an object."""
    stored = StoredModel.read(raw)
    if stored.model is None:
        return f"unreadable: {stored.problem}"[:100]
    result = plan(stored.model, settings=PlanSettings(), keys=_KEYS)
    return str(result.problems[0][0]) if result.problems else "planned"


def _said(told: Mapping[str, Any]) -> str:
    causes = (told.get("details") or {}).get("causes") or []
    return " ".join([str(told.get("message")), *(str(cause.get("field")) for cause in causes)])


def _fields(schema: Schema, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Every field below an object, with its path."""
    for name, part in schema.get("properties", {}).items():
        yield (*path, name), part
        yield from _fields(part, (*path, name))


def _replacement(found: tuple[tuple[str, ...], Schema]) -> st.SearchStrategy[Replacement]:
    path, schema = found
    return st.tuples(st.just(path), admitted(schema))


def _replaced(manifest: Manifest, replacements: Sequence[Replacement]) -> Manifest:
    spec: Json = manifest["spec"]
    for path, value in replacements:
        spec = _with(spec, path, value)
    return {**manifest, "spec": spec}


def _has(part: object, path: Sequence[str]) -> bool:
    if not path:
        return isinstance(part, Mapping)
    return isinstance(part, Mapping) and path[0] in part and _has(part[path[0]], path[1:])


def _with(part: object, path: Sequence[str], value: object) -> Json:
    own = dict(part) if isinstance(part, Mapping) else {}
    name, *rest = path
    return {**own, name: _with(own.get(name), rest, value) if rest else value}


def _with_spec(spec: object) -> Manifest:
    return {**base_manifest(), "spec": spec}


@contextmanager
def _api_server() -> Iterator[httpx.Client]:
    """The API server as kubectl reaches it, without its start for each object."""
    command = ["kubectl", "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None
        address = proxy.stdout.readline().split()[-1]
        try:
            with httpx.Client(base_url=f"http://{address}", timeout=30, trust_env=False) as http:
                yield http
        finally:
            proxy.terminate()


def main(arguments: Sequence[str]) -> int:
    """1 where an object fell through."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.admission_fuzz", description=__doc__)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="another one, other objects")
    given_ = parser.parse_args(arguments)
    tally = fuzz(given_.objects, start=given_.seed)
    print(tally)
    return 1 if tally.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
