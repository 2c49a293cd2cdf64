"""What admission knows of one inference engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from outrider_protocol.methods import Method


class Feature(Enum):
    """A part of the spec that only some engines have."""

    MODEL_RUNNER = "a choice of the model runner"
    ADAPTIVE_VERIFICATION = "adaptive verification"
    SPECULATIVE_CONFIG = "keys of a speculative configuration"
    REQUEST_LIMITS = "requests of one batch with different K"
    LORA_ADAPTERS = "LoRA adapters as a field of the spec"
    TRANSFER_PEERS = "KV connectors of vLLM"
    ALIASES = "several names of one model"
    IDLE_DRAFTER = "a choice of the drafter's work while K is 0"
    PIPELINED_DRAFTS = "drafts with pipeline stages"
    SPREAD_DRAFTER = "a choice of the drafter's GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """One engine. Flags are without dashes in front."""

    releases: str
    """The releases, as a message names them."""
    version: str
    """Regular expression of the beginning of its versions."""
    stock_image: str
    """Regular expression of images without Outrider's plugin, by the repository, in any registry."""
    owned_flags: Mapping[str, str]
    """Flag -> what to do instead. The same flag with underscores is refused, too."""
    switches: frozenset[str] = frozenset()
    """Flags of `owned_flags`, `generating` and `fixed_by` that are true or false."""
    generating: Mapping[str, tuple[str | bool, ...]]
    """Flag -> the values with which a model generates tokens. With another one it gives embeddings or
    scores."""
    features: frozenset[Feature]
    methods: tuple[Method, ...]
    relaunched: tuple[Method, ...] = ()
    """Methods whose K changes by a restart only, and is one for all batch sizes."""
    static: tuple[Method, ...] = ()
    """Methods that keep one K here, although another engine changes it."""
    fixed_by: tuple[str, ...] = ()
    """Switches with which a running engine keeps one K."""
