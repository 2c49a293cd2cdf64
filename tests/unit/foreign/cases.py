"""One case for each reader of the registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from outrider.api.annotations import OVERRIDE, OVERRIDE_UNTIL, read_instructions
from outrider.api.launch import LAUNCH_KEY, Launch, LaunchOrder
from outrider.api.tuning import Actuation
from outrider.cluster.objects import Pod, Terminated, launch_failure
from outrider.controller.reconcile import downloads
from outrider.controller.reconcile.rollouts import table_of
from outrider.controller.stored import StoredModel
from outrider.controller.tune import snapshot
from outrider.engine import client
from outrider.foreign import read_as, readers
from outrider.importing import Options, import_text
from outrider.plan import rollout
from outrider.plan.gpu_labels import PRODUCT, selected_slice
from outrider.plan.weights.needs import MODEL, Artifact, Needs
from outrider.plan.weights.room import gpu_memory
from outrider.runtimes import missing_model
from outrider.runtimes.engine_launch import SCHEDULE_FILE
from outrider.runtimes.metrics import PLUGIN_CELLS, PLUGIN_EPOCH, CellCounter
from outrider.runtimes.vllm import metrics as names
from outrider.telemetry.page import read_text
from outrider.transport import PodAnswer
from outrider_protocol.control_api import STATE_PATH
from tests.unit.controller.factories import a_raw_model
from tests.unit.foreign.case import Case, itself
from tests.unit.tuning_loop.factories import a_model

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


_MARK = "\ue000"
_DUMPED: dict[int, tuple[Any, bytes]] = {}
"""By identity: values, which are large, and their JSON."""


def _dumped(value: Any) -> bytes:
    if id(value) not in _DUMPED:
        _DUMPED[id(value)] = value, _json(value)
    return _DUMPED[id(value)][1]


def _holding(whole: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    """The JSON of what holds a value. A value is dumped once, however many hold it."""
    before, after = _json(whole(_MARK)).split(_json(_MARK))
    return lambda value: before + _dumped(value) + after


def _text_holding(whole: Callable[[Any], Any]) -> Callable[[Any], str]:
    put = _holding(whole)
    return lambda value: put(value).decode("utf-8", "replace")


def _state(part: Callable[[Any], dict[str, Any]]) -> Callable[[Any], bytes]:
    return _holding(lambda value: {**_STATE, **part(value)})


def _state_of(text: bytes) -> object:
    return client._parse_state(PodAnswer(200, text))


def _refusal_of(text: bytes) -> object:
    return client._refusal(STATE_PATH, PodAnswer(409, text))


def _imported(part: Callable[[Any], dict[str, Any]]) -> Callable[[Any], str]:
    def whole(value: Any) -> dict[str, Any]:
        container = {"name": "vllm", "image": "vllm/vllm-openai:v0.33.0", **part(value)}
        spec = {"template": {"spec": {"containers": [container]}}}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}

    return _text_holding(whole)


_SCRIPT = _imported(lambda text: {"command": ["sh", "-c", text]})


def _spec(part: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    def put(value: Any) -> dict[str, Any]:
        raw = a_raw_model()
        return {**raw, "spec": {**raw["spec"], **part(value)}}

    return put


def _speculation(value: dict[str, Any]) -> dict[str, Any]:
    return {"speculation": {**a_raw_model()["spec"]["speculation"], **value}}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _dumped(value).decode()


def _commas(value: Any) -> str:
    return "," * len(_text(value))


def _table(text: str) -> None:
    """As annotations and the order of a launch have it."""
    annotations = {OVERRIDE: text, OVERRIDE_UNTIL: "2030-01-01T00:00:00Z"}
    read_instructions(annotations, candidates=(0, 3), actuation=Actuation.LIVE)
    for read in (Launch.parse, lambda text: LaunchOrder.from_data({LAUNCH_KEY: text})):
        with suppress(ValueError):
            read(text)


def _selecting(labels: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"nodeSelector": labels}}}


def _with_container(fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"containers": [{"name": "engine", **fields}]}}}


def _selected(raw: dict[str, Any]) -> object:
    model = StoredModel.read(raw).model
    return None if model is None else (selected_slice(model.spec), gpu_memory(model.spec))


_TUNED = a_model()


def _knowledge(part: Callable[[Any], dict[str, Any]]) -> Callable[[Any], str]:
    known = {"mode": _TUNED.mode, "static": _TUNED.static.to_wire(), "state": None}
    return _text_holding(lambda value: {**known, **part(value)})


def _know(text: str) -> None:
    for read in (snapshot.read_estimates, lambda text: snapshot.read_snapshot(text, _TUNED)):
        with suppress(ValueError):
            read(text)


def _last_words(text: str) -> None:
    end = Terminated(exit_code=1, message=text)
    launch_failure(end)
    missing_model(text)


_NEEDS = Needs("claim", False, (Artifact(MODEL, "hf://a/b", None),))


def _result(part: Callable[[Any], dict[str, Any]]) -> Callable[[Any], str]:
    model = {"path": "hub/a", "revision": "r", "bytes": 1}
    return _text_holding(lambda value: {"weights": {"model": {**model, **part(value)}}})


def _ended(message: str) -> Pod:
    state = {"terminated": {"exitCode": 0, "message": message}}
    status = {"containerStatuses": [{"name": "download", "state": state}]}
    return Pod.model_validate({"metadata": {"name": "p"}, "status": status})


def _page(name: str, lines: int, length: int) -> str:
    """So many series of one name, each a line of this length."""

    def line(number: int) -> str:
        head = f'{name}{{engine="0",position="{number}",x="'
        return f'{head}{"y" * (length - len(head) - 6)}"}} 1.5\n'

    return "".join(map(line, range(lines)))


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
            "the whole": _dumped,
        },
        _state_of,
    ),
    Case(
        readers.ENGINE_REFUSAL,
        {
            "reason": _holding(lambda value: {"error": {"reason": value}}),
            "message": _holding(lambda value: {"error": {"reason": "r", "message": value}}),
            "the whole": _dumped,
        },
        _refusal_of,
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
    Case(
        readers.NODE_SELECTOR,
        {
            "product": _spec(lambda value: _selecting({PRODUCT: value})),
            "resources": _spec(lambda value: _with_container({"resources": {"limits": value}})),
        },
        _selected,
        beyond=False,
        more=lambda: {
            f"a name of {count} slices": _spec(_selecting)({PRODUCT: "-MIG-1g.5gb" * count + "\n\n"})
            for count in (5_000, 20_000)
        },
    ),
    Case(
        readers.TABLE,
        {"annotation": _text, "blanks": lambda value: " " * len(_text(value)), "commas": _commas},
        _table,
    ),
    Case(
        readers.TABLE_FILE,
        {"rows": lambda value: {SCHEDULE_FILE: _dumped(value).decode()}},
        table_of,
        more=lambda: {"deep": {SCHEDULE_FILE: "[" * 200_000}},
    ),
    Case(
        readers.ROLLOUT_MEMORY,
        {
            "good": _text_holding(lambda value: {"good": value}),
            "table": _text_holding(
                lambda value: {
                    "good": {"revision": "r", "table": value},
                    "failed": {"spec": "s", "reason": "r", "message": "m"},
                }
            ),
            "the whole": _text_holding(itself),
        },
        lambda text: rollout.Memory.of({rollout.ANNOTATION: text}).returned_table,
    ),
    Case(
        readers.TUNER_STATE,
        {
            "static table": _knowledge(lambda value: {"static": value}),
            "failed K": _knowledge(lambda value: {"failedK": value}),
            "estimates": _knowledge(lambda value: {"estimates": value}),
            "relaunches": _knowledge(lambda value: {"relaunches": value}),
            "step times": _knowledge(lambda value: {"stepTimes": value}),
            "state": _knowledge(lambda value: {"state": value}),
            "bins of the state": _knowledge(
                lambda value: {"state": {"version": 3, "state": {"known": value}}}
            ),
        },
        _know,
    ),
    Case(
        readers.LAST_WORDS,
        {
            "reason": _text_holding(lambda value: {"reason": value}),
            "text": lambda value: "x" + _text(value),
            "no model": lambda value: "Repo id must use alphanumeric chars, " * 100 + _text(value),
        },
        _last_words,
    ),
    Case(
        readers.WEIGHTS_RESULT,
        {
            "path": _result(lambda value: {"path": value}),
            "size": _result(lambda value: {"bytes": value}),
            "all": _text_holding(lambda value: {"weights": value}),
        },
        lambda text: downloads.finished(_NEEDS, [_ended(text)]),
    ),
    Case(
        readers.DOWNLOAD_PROGRESS,
        {"done": _holding(lambda value: {"done": value, "total": 1}), "the whole": _dumped},
        lambda text: read_as(readers.DOWNLOAD_PROGRESS, text, downloads._PROGRESS),
    ),
    Case(
        readers.METRICS_PAGE,
        {},
        lambda text: read_text(text, {}),
        more=lambda: {
            "all series": _page(names.ACCEPTED_PER_POSITION, 10_000, 100),
            "long lines": _page(PLUGIN_CELLS[CellCounter.ACCEPTED], 1_020, 1_020),
            "long timestamps": f"{PLUGIN_EPOCH} 1 {'9' * 980}\n" * 1_000,
            "backslashes": f'{PLUGIN_EPOCH}{{a="{chr(92) * 980}"}} 1\n' * 1_000,
            "comments": "# x\n" * (readers.METRICS_PAGE.most_bytes // 4),
            "line feeds": "\n" * readers.METRICS_PAGE.most_bytes,
            "one line": PLUGIN_EPOCH + "1" * readers.METRICS_PAGE.most_bytes,
        },
    ),
    Case(
        readers.IMPORTED,
        {
            "flags": _imported(lambda value: {"args": value}),
            "a script": lambda value: _SCRIPT(f"vllm serve a/b {_text(value)}"),
            "variables": _imported(lambda value: {"args": ["a/b"], "env": value}),
            "the whole": _text_holding(itself),
        },
        lambda text: list(import_text(text, Options())),
        more=lambda: {
            "block lists": "- x\n" * (readers.IMPORTED.most_values - 1),
            "deep block lists": "".join(f"{' ' * level}-\n" for level in range(500)),
            "aliases": "a: &a [1, 1, 1, 1]\nb: &b [*a, *a, *a, *a]\n" + "c: [*b, *b]\n" * 1_000,
            "anchors": "".join(f"- &a{number} x\n" for number in range(readers.IMPORTED.most_values - 1)),
        },
    ),
)
