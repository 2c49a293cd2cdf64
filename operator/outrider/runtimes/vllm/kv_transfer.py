"""KV connectors in ``spec.engine.args``: which side of a transfer an engine is, and what follows for drafts.

Source of names and roles: vLLM 0.32.0, `vllm.config.kv_transfer.KVTransferConfig` and
`vllm.distributed.kv_transfer.kv_connector.factory`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from outrider.api.engine_args import moves_cache
from outrider.api.spec import Spec
from outrider.api.tuning import TuningMode
from outrider.foreign.readers import ENGINE_ARGS
from outrider.foreign.reading import read_json
from outrider.runtimes.flag_values import canonical
from outrider_protocol.methods import TRAITS, Method

_FLAG = "kv-transfer-config"
_MULTI = "MultiConnector"
_KEPT_BESIDE = frozenset(
    {
        "OffloadingConnector",
        "SimpleCPUOffloadConnector",
        "MooncakeStoreConnector",
        "HF3FSKVConnector",
        "FlexKVConnectorV1",
        "LMCacheMPConnector",
        "HiSparseConnector",
    }
)
"""Connectors that keep blocks in other memory, and move them to no other engine's requests."""


class Role(StrEnum):
    """vLLM's ``kv_role``."""

    PRODUCER = "kv_producer"
    CONSUMER = "kv_consumer"
    BOTH = "kv_both"


@dataclass(frozen=True, slots=True)
class Transfer:
    """The KV connector of an engine. connectors: those of a MultiConnector each. role: None where unset."""

    connectors: tuple[str, ...]
    role: str | None

    @property
    def between_engines(self) -> bool:
        """Whether another engine's prompts may fill the cache, or this one's another's."""
        return self.role != Role.BOTH or any(each not in _KEPT_BESIDE for each in self.connectors)


def transfer(spec: Spec) -> Transfer | None:
    """The connector of these flags; None without one.

    Raises:
        ValueError: the flag is not an object in JSON; the message names it.
    """
    config = _config(spec)
    connector = config.get("kv_connector")
    if not isinstance(connector, str):
        return None
    role = config.get("kv_role")
    extra = config.get("kv_connector_extra_config")
    parts = extra.get("connectors") if connector == _MULTI and isinstance(extra, Mapping) else None
    inner = (
        tuple(str(each.get("kv_connector")) for each in parts or () if isinstance(each, Mapping))
        if isinstance(parts, list)
        else ()
    )
    return Transfer(inner or (connector,), role if isinstance(role, str) else None)


def _config(spec: Spec) -> Mapping[str, object]:
    """The object, from one flag or from flags with a path such as ``kv-transfer-config.kv_role``."""
    found: dict[str, object] = {}
    for name, value in spec.engine.args.items():
        head, _, path = canonical(name).partition(".")
        if head != _FLAG:
            continue
        if path:
            found[path.replace("-", "_")] = value
            continue
        try:
            whole = read_json(ENGINE_ARGS, value) if isinstance(value, str) else None
        except ValueError:
            whole = None
        if not isinstance(whole, dict):
            raise ValueError(f"spec.engine.args.{name}: write an object with kv_connector and kv_role")
        found |= whole
    return found


def refusal(spec: Spec) -> str | None:
    """Why vLLM would end with these flags, or a peer has no connector; None where nothing is wrong."""
    try:
        found = transfer(spec)
    except ValueError as error:
        return str(error)
    if found is None:
        if spec.engine.kv_transfer_peer is None or moves_cache(spec.engine.args):
            return None
        return (
            "spec.engine.kvTransferPeer names another engine, and spec.engine.args has no KV connector. Set "
            "kv-transfer-config with kv_connector and kv_role, or remove the field"
        )
    offloads = any(canonical(name) == "kv-offloading-size" for name in spec.engine.args)
    if not offloads and (found.role is None or found.role not in set(Role)):
        return (
            f"vLLM ends without a role for {found.connectors[0]}. Set kv_role in spec.engine.args."
            f"{_FLAG}: {', '.join(Role)}"
        )
    return None


def advice(spec: Spec) -> Iterator[str]:
    """What drafts do beside a connector, one sentence each, without an end mark."""
    try:
        found = transfer(spec)
    except ValueError:
        return
    method = spec.speculation.method
    if found is None or method is Method.NONE:
        return
    if found.role == Role.PRODUCER:
        yield from _of_a_producer(spec)
    elif found.between_engines and spec.engine.kv_transfer_peer is None and not TRAITS[method].searches_text:
        yield (
            "this engine takes KV cache from other engines, and Outrider cannot compare their speculation; "
            "name their model in spec.engine.kvTransferPeer"
        )


def _of_a_producer(spec: Spec) -> Iterator[str]:
    speculation = spec.speculation
    if TRAITS[speculation.method].searches_text:
        yield (
            f"a prefill engine (kv_role: {Role.PRODUCER}) makes one token per request, so drafts of "
            f"{speculation.method} have no use; set spec.speculation.method: none"
        )
    elif speculation.tuning.mode is not TuningMode.OFF:
        yield (
            f"a prefill engine (kv_role: {Role.PRODUCER}) needs the drafter for the cache of the decode "
            "side, and K changes nothing there; set spec.speculation.tuning.mode: Off"
        )
