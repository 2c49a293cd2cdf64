"""Deployments of one engine, and what `outrider import` answers to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from outrider.importing import Imported, Options, Outcome, Refused, import_text

IMAGE = "vllm/vllm-openai:v0.33.0"
FROM_CONFIG_MAP: dict[str, Any] = {"valueFrom": {"configMapKeyRef": {"name": "settings", "key": "key"}}}


def an_engine(*args: str, image: str = IMAGE, **more: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": 1}}
    return {"name": "vllm", "image": image, "args": list(args), "resources": resources, **more}


def a_script(script: str, **variables: str) -> dict[str, Any]:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    return an_engine(script, command=["/bin/sh", "-c"], env=env)


def a_deployment(*containers: dict[str, Any], kind: str = "Deployment", **more: Any) -> dict[str, Any]:
    """more: further fields of its spec."""
    template = {"spec": {"containers": list(containers)}}
    metadata = {"name": "chat"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"template": template, **more},
    }


def result_of(source: dict[str, Any] | str) -> Imported | Refused:
    """source: a manifest, or the container of a Deployment with nothing else."""
    if isinstance(source, dict) and "kind" not in source:
        source = a_deployment(source)
    (found,) = import_text(source if isinstance(source, str) else yaml.safe_dump(source), Options())
    return found


def imported(source: dict[str, Any] | str) -> Imported:
    found = result_of(source)
    assert isinstance(found, Imported), found
    return found


def spec_of(source: dict[str, Any] | str) -> dict[str, Any]:
    spec = imported(source).manifest["spec"]
    assert isinstance(spec, dict)
    return spec


def why_refused(source: dict[str, Any] | str) -> str:
    found = result_of(source)
    assert isinstance(found, Refused), found
    return found.why


def findings(source: dict[str, Any] | str, outcomes: Sequence[Outcome] = tuple(Outcome)) -> dict[str, str]:
    """Part of the source -> the reason."""
    found = imported(source).findings
    return {each.what: each.why for outcome in outcomes for each in found.of(outcome)}
