"""Both ends of a KV connector: what has to be equal in the models of a prefill and of a decode side. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from outrider.api.spec import Spec
from outrider_protocol.methods import TRAITS, Kind, Method

_WITHOUT_CACHE = (Kind.NOTHING, Kind.TEXT)
"""Their drafts leave nothing in the KV cache."""


def difference(spec: Spec, peer: Spec, *, name: str) -> str | None:
    """What differs between both sides and its remedy, in one sentence; None: nothing that matters.

    name: of the other model. A drafter with weights has layers of its own in the KV cache, which have to be
    the same on both sides. The blocks that a recurrent target keeps depend on the largest K. Source: vLLM
    0.32.0, `compute_nixl_compatibility_hash`, and `num_speculative_blocks` of its state caches; vllm#49230.
    """
    found = "; ".join(_differences(spec, peer))
    if not found:
        return None
    return (
        f"Outrider changes no pod, because this model and its spec.engine.kvTransferPeer {name} differ: "
        f"{found}. To roll out, set the same in both"
    )


def _differences(spec: Spec, peer: Spec) -> Iterator[str]:
    yield from _unlike("spec.model.uri", spec.model.uri, peer.model.uri)
    yield from _unlike("spec.engine.version", spec.engine.version, peer.engine.version)
    own, other = _in_the_cache(spec), _in_the_cache(peer)
    if own is Method.NONE and other is Method.NONE:
        return
    yield from _unlike("spec.speculation.method", spec.speculation.method, peer.speculation.method)
    if own is not other:
        return
    drafters = [each.speculation.drafter for each in (spec, peer)]
    yield from _unlike("spec.speculation.drafter.uri", *(each and each.uri for each in drafters))
    yield from _unlike("spec.speculation.drafter.revision", *(each and each.revision for each in drafters))
    yield from _unlike("spec.speculation.numSpeculativeTokens", *(_largest(each) for each in (spec, peer)))


def _largest(spec: Spec) -> int:
    return max(spec.candidates(), default=0)


def _in_the_cache(spec: Spec) -> Method:
    """The method, where its drafter has layers in the KV cache."""
    method = spec.speculation.method
    return Method.NONE if TRAITS[method].kind in _WITHOUT_CACHE else method


def _unlike(field: str, own: object, other: object) -> Iterator[str]:
    if own != other:
        yield f"{field} is {_shown(own)} here and {_shown(other)} there"


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)
