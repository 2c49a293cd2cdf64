"""A manifest to start with, as text that a person reads and ``kubectl apply`` takes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy

import yaml
from pydantic import JsonValue

from outrider.api.quantity import MAX_NAME_LENGTH
from outrider.api.resource import API_VERSION, KIND
from outrider.sizing.proposal import Proposal
from outrider_protocol.methods import Method

_SHARE = "gpu-memory-utilization"
_NO_PROPOSAL = ("numSpeculativeTokens", "candidates", "schedule")


def new_manifest(
    chosen: Proposal,
    *,
    uri: str,
    method: Method,
    drafter_uri: str | None,
    gpus: int,
    max_length: int,
) -> dict[str, JsonValue]:
    """A SpeculativeModel of nothing but what was asked and proposed."""
    speculation: dict[str, JsonValue] = {"method": str(method)}
    if drafter_uri is not None:
        speculation["drafter"] = {"uri": drafter_uri}
    spec: dict[str, JsonValue] = {
        "model": {"uri": uri, "maxLength": max_length},
        "speculation": speculation,
    }
    if gpus > 1:
        spec["parallelism"] = {"tensor": gpus}
    raw: dict[str, JsonValue] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": object_name(uri.rsplit("/", 1)[-1])},
        "spec": spec,
    }
    return with_proposal(raw, chosen)


def with_proposal(raw: Mapping[str, JsonValue], chosen: Proposal) -> dict[str, JsonValue]:
    """A manifest with K, candidates and static schedule of a proposal, and all else as it was."""
    made = deepcopy(dict(raw))
    spec = made["spec"]
    assert isinstance(spec, dict)
    speculation = spec["speculation"]
    assert isinstance(speculation, dict)
    kept = {key: value for key, value in speculation.items() if key not in _NO_PROPOSAL}
    if speculation["method"] == Method.NONE:
        spec["speculation"] = kept
    else:
        tuning = kept.pop("tuning", {"mode": "Auto"})
        spec["speculation"] = {
            **kept,
            "numSpeculativeTokens": chosen.ceiling,
            "candidates": list(chosen.candidates),
            "schedule": [dict(row) for row in chosen.schedule.to_wire()],
            "tuning": tuning,
        }
    return made


def with_memory_share(raw: Mapping[str, JsonValue], share: float) -> dict[str, JsonValue]:
    """A manifest whose engines take this ratio of each GPU's memory, and all else as it was."""
    made = deepcopy(dict(raw))
    spec = made["spec"]
    assert isinstance(spec, dict)
    engine = spec.setdefault("engine", {})
    assert isinstance(engine, dict)
    args = engine.setdefault("args", {})
    assert isinstance(args, dict)
    kept = {flag: value for flag, value in args.items() if flag.replace("_", "-") != _SHARE}
    engine["args"] = {**kept, _SHARE: share}
    return made


def text_of(manifest: Mapping[str, JsonValue], chosen: Proposal) -> str:
    """YAML, with a comment for each number that was proposed."""
    comments = "".join(f"# {source}\n" for source in chosen.sources)
    body = yaml.safe_dump(dict(manifest), sort_keys=False, default_flow_style=None, width=76)
    return comments + body


def object_name(words: str, max_length: int = MAX_NAME_LENGTH) -> str:
    """A name for an object, in the letters that Kubernetes takes."""
    letters = re.sub(r"[^a-z0-9]+", "-", words.lower()).lstrip("-0123456789")
    return letters[:max_length].strip("-") or "model"
