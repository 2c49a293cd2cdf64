"""One case for each reader of the registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from outrider.controller.store import StoredModel
from outrider.engine import client
from outrider.foreign import readers
from tests.unit.controller.factories import a_raw_model
from tests.unit.foreign.case import Case

_STATE = {
    "bootId": "b",
    "capturedK": [0, 1],
    "liveTuning": {"possible": True},
    "schedule": None,
    "source": "Static",
    "term": 0,
    "epoch": 0,
}
_PROBE = {"id": "p", "running": False, "reason": "Completed", "minBatchSize": 1}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def _state(part: Callable[[Any], dict[str, Any]]) -> Callable[[Any], bytes]:
    return lambda value: _json({**_STATE, **part(value)})


def _answer(status: int) -> Callable[[bytes], object]:
    read = client._parse_state if status == 200 else client._refusal  # type: ignore[attr-defined]
    return lambda text: read(client._Answer(client.STATE_PATH, status, text))


def _spec(part: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    def put(value: Any) -> dict[str, Any]:
        raw = a_raw_model()
        return {**raw, "spec": {**raw["spec"], **part(value)}}

    return put


def _speculation(value: dict[str, Any]) -> dict[str, Any]:
    return {"speculation": {**a_raw_model()["spec"]["speculation"], **value}}


CASES: tuple[Case, ...] = (
    Case(
        readers.ENGINE_STATE,
        {
            "table": _state(lambda value: {"schedule": value}),
            "captured K": _state(lambda value: {"capturedK": value}),
            "failed K": _state(lambda value: {"selfTest": {"state": "Failed", "failedK": value}}),
            "step times": _state(lambda value: {"stepTimes": value}),
            "results of a probe": _state(lambda value: {"probe": {**_PROBE, "results": value}}),
            "a sentence": _state(lambda value: {"simulated": value}),
            "an unknown field": _state(lambda value: {"x": value}),
            "the whole": _json,
        },
        _answer(200),
    ),
    Case(
        readers.ENGINE_REFUSAL,
        {
            "reason": lambda value: _json({"error": {"reason": value}}),
            "message": lambda value: _json({"error": {"reason": "r", "message": value}}),
            "the whole": _json,
        },
        _answer(409),
    ),
    Case(
        readers.SPEC,
        {
            "table": _spec(lambda value: _speculation({"schedule": value})),
            "candidates": _spec(lambda value: _speculation({"candidates": value})),
            "limits": _spec(lambda value: {"resources": {"limits": value}}),
            "labels": _spec(lambda value: {"podTemplate": {"metadata": {"labels": value}}}),
            "claims": _spec(lambda value: {"resources": {"claims": value}}),
            "an unknown field": _spec(lambda value: {"x": value}),
        },
        StoredModel.read,
    ),
    Case(
        readers.ENGINE_ARGS,
        {
            "one flag": _spec(lambda value: {"engine": {"args": {"seed": value}}}),
            "flags": _spec(lambda value: {"engine": {"args": value}}),
        },
        StoredModel.read,
    ),
    Case(
        readers.SPECULATION_CONFIG,
        {
            "one key": _spec(lambda value: _speculation({"config": {"prompt_lookup_max": value}})),
            "keys": _spec(lambda value: _speculation({"config": value})),
        },
        StoredModel.read,
    ),
    Case(
        readers.POD_TEMPLATE,
        {
            "a field": _spec(lambda value: {"podTemplate": {"spec": {"x": value}}}),
            "containers": _spec(lambda value: {"podTemplate": {"spec": {"containers": value}}}),
            "the whole": _spec(lambda value: {"podTemplate": {"spec": value}}),
            "annotations": _spec(lambda value: {"podTemplate": {"metadata": {"annotations": value}}}),
        },
        StoredModel.read,
    ),
    Case(
        readers.STATUS,
        {
            "conditions": lambda value: {**a_raw_model(), "status": {"conditions": value}},
            "decisions": lambda value: {**a_raw_model(), "status": {"decisions": value}},
            "table": lambda value: {**a_raw_model(), "status": {"speculation": {"schedule": value}}},
            "acceptance": lambda value: {
                **a_raw_model(),
                "status": {"speculation": {"state": "Active", "perPositionAcceptance": value}},
            },
            "the whole": lambda value: {**a_raw_model(), "status": value},
        },
        StoredModel.read,
    ),
)
