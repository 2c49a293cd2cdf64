"""KV connectors: which side an engine is, what its drafts do there, and what both sides must share."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.plan.transfer_peer import difference
from outrider.runtimes import runtime_of
from outrider.runtimes.vllm.kv_transfer import Transfer, advice, transfer
from tests.unit.plan.factories import a_model
from tests.unit.plan.launches import a_launch, advised, refused

NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
PREFILL = NIXL | {"kv_role": "kv_producer"}
OFFLOAD = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}
LOST = "the connector did not move the drafter's part of the cache"


def flags(config: dict[str, Any]) -> dict[str, Any]:
    return {"kv-transfer-config": config}


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ({}, None),
        (flags({}), None),
        (flags(NIXL), Transfer(("NixlConnector",), "kv_both")),
        ({"kv_transfer_config": json.dumps(NIXL)}, Transfer(("NixlConnector",), "kv_both")),
        (
            {"kv-transfer-config.kv_connector": "NixlConnector", "kv-transfer-config.kv_role": "kv_consumer"},
            Transfer(("NixlConnector",), "kv_consumer"),
        ),
        (
            flags(
                {
                    "kv_connector": "MultiConnector",
                    "kv_role": "kv_both",
                    "kv_connector_extra_config": {"connectors": [NIXL, OFFLOAD]},
                }
            ),
            Transfer(("NixlConnector", "OffloadingConnector"), "kv_both"),
        ),
    ],
    ids=["none", "empty", "object", "JSON", "paths", "several"],
)
def test_a_connector_is_found_in_every_form_of_the_flag(args: dict[str, Any], found: Transfer | None) -> None:
    assert transfer(a_launch("mtp", args=args).spec) == found


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (flags({"kv_connector": "NixlConnector"}), "Set kv_role in spec.engine.args.kv-transfer-config"),
        (flags(NIXL | {"kv_role": "kv_prefill"}), "kv_producer, kv_consumer, kv_both"),
        ({"kv-transfer-config": "NixlConnector"}, "write an object with kv_connector and kv_role"),
        ({"kv-transfer-config": 3}, "write an object with kv_connector and kv_role"),
    ],
    ids=["no role", "no such role", "a name", "a number"],
)
def test_a_connector_with_which_vllm_would_end_is_refused(args: dict[str, Any], message: str) -> None:
    assert message in (refused(a_launch("mtp", args=args)) or "")


@pytest.mark.parametrize(
    "args",
    [flags(NIXL), flags(PREFILL), flags(OFFLOAD), {"kv-offloading-size": 8}],
    ids=["both", "producer", "offload", "flag alone"],
)
def test_connectors_with_a_role_are_launched(args: dict[str, Any]) -> None:
    assert refused(a_launch("mtp", args=args)) is None


def test_a_peer_without_a_connector_is_refused() -> None:
    message = refused(a_launch("mtp", engine={"kvTransferPeer": "decode"}))
    assert "spec.engine.args has no KV connector" in (message or "")


@pytest.mark.parametrize(("config", "lost"), [(NIXL, True), (PREFILL, True), (OFFLOAD, False)])
def test_drafts_may_be_lost_between_engines_only(config: dict[str, Any], lost: bool) -> None:
    target = {"architecture": "Qwen3ForCausalLM"}
    assert (LOST in advised(a_launch("mtp", args=flags(config), target=target))) is lost


def test_drafts_from_the_text_need_no_cache() -> None:
    target = {"architecture": "Qwen3ForCausalLM"}
    assert LOST not in advised(a_launch("ngram", args=flags(NIXL), target=target))


def said(method: str, config: dict[str, Any], **parts: Any) -> str:
    spec = a_launch(method, args=flags(config), **parts).spec
    found = " | ".join(advice(spec))
    assert found in " | ".join(runtime_of(spec).advice(spec, None))
    return found


@pytest.mark.parametrize(
    ("method", "config", "sentence"),
    [
        ("ngram", PREFILL, "drafts of ngram have no use; set spec.speculation.method: none"),
        ("mtp", PREFILL, "K changes nothing there; set spec.speculation.tuning.mode: Off"),
        ("mtp", NIXL, "name their model in spec.engine.kvTransferPeer"),
    ],
)
def test_the_advice_to_one_side(method: str, config: dict[str, Any], sentence: str) -> None:
    assert sentence in said(method, config)


@pytest.mark.parametrize(
    ("method", "config", "parts"),
    [
        ("mtp", PREFILL, {"speculation": {"tuning": {"mode": "Off"}}}),
        ("mtp", NIXL, {"engine": {"kvTransferPeer": "prefill"}}),
        ("ngram", NIXL, {}),
        ("mtp", OFFLOAD, {}),
    ],
    ids=["static prefill", "named peer", "text", "offload"],
)
def test_there_is_no_advice_where_nothing_is_to_do(
    method: str, config: dict[str, Any], parts: dict[str, Any]
) -> None:
    assert said(method, config, **parts) == ""


EAGLE = {"method": "eagle3", "speculation": {"drafter": {"uri": "hf://org/drafter"}, "candidates": [0, 3, 5]}}


def unlike(own: dict[str, Any], peer: dict[str, Any]) -> str | None:
    return difference(a_model(**own).spec, a_model(**peer).spec, name="prefill")


def changed(**speculation: Any) -> dict[str, Any]:
    return EAGLE | {"speculation": {**EAGLE["speculation"], **speculation}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("peer", "named"),
    [
        (
            changed(drafter={"uri": "hf://org/other"}),
            "drafter.uri is hf://org/drafter here and hf://org/other",
        ),
        (
            changed(drafter={"uri": "hf://org/drafter", "revision": "a" * 40}),
            "drafter.revision is not set here",
        ),
        (
            changed(numSpeculativeTokens=7, candidates=[0, 7]),
            "spec.speculation.numSpeculativeTokens is 5 here and 7 there",
        ),
        ({"method": "none"}, "spec.speculation.method is eagle3 here and none there"),
        ({"method": "ngram"}, "spec.speculation.method is eagle3 here and ngram there"),
        (EAGLE | {"uri": "hf://org/another"}, "spec.model.uri is "),
    ],
    ids=["drafter", "revision", "K", "none", "text", "target"],
)
def test_what_both_sides_of_a_connector_must_share(peer: dict[str, Any], named: str) -> None:
    message = unlike(EAGLE, peer)
    assert named in (message or "")
    assert "To roll out, set the same in both" in (message or "")


@pytest.mark.parametrize(
    ("own", "peer"),
    [
        (EAGLE, EAGLE),
        (EAGLE, changed(candidates=[0, 1, 5], tuning={"mode": "Off"})),
        ({"method": "ngram"}, {"method": "none"}),
    ],
    ids=["equal", "other candidates and mode", "text and none"],
)
def test_what_both_sides_may_have_of_their_own(own: dict[str, Any], peer: dict[str, Any]) -> None:
    assert unlike(own, peer) is None
