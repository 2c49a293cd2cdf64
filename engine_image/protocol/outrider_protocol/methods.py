"""The speculation methods: what admission, planning, sizing and the engine plugin must know of each.

What a method does in a release of vLLM is in ``versions.toml``, see `outrider_protocol.releases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from outrider_protocol.releases import PIPELINE_SINCE, variant


class Method(StrEnum):
    """Method that proposes draft tokens."""

    NONE = "none"
    DRAFT_MODEL = "draft_model"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    P_EAGLE = "p_eagle"
    PARD = "pard"
    MTP = "mtp"
    NGRAM = "ngram"
    NGRAM_GPU = "ngram_gpu"
    SUFFIX = "suffix"
    DFLASH = "dflash"
    DSPARK = "dspark"
    MEDUSA = "medusa"
    MLP_SPECULATOR = "mlp_speculator"
    CUSTOM_CLASS = "custom_class"

    @property
    def variant(self) -> str:
        """Its name in `outrider_protocol.releases.RESPONSES`."""
        traits = TRAITS[self]
        return variant(traits.engine_name or self.value, parallel_drafting=traits.parallel)


class Drafter(StrEnum):
    """Whether a method needs weights of a drafter."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    FORBIDDEN = "forbidden"


class K0(StrEnum):
    """The work of a drafter while K is 0."""

    AUTO = "Auto"
    """Skip where tests on a real engine showed it, else Sync."""
    SYNC = "Sync"
    """It runs in every step, as in vLLM without the plugin."""
    SKIP = "Skip"
    """Steps skip it, and it catches up before it drafts again."""


class Tunability(StrEnum):
    """Control of K in a running engine."""

    LIVE = "live"
    """K follows a schedule that can change between two steps, in some release and on some runner."""
    STATIC = "static"
    """The engine keeps the K of its launch."""
    REFUSED = "refused"
    """Not served in this version."""


class Kind(StrEnum):
    """What proposes the draft tokens."""

    NOTHING = "nothing"
    TEXT = "text"
    """The text itself is searched. A step without a match in it has no draft tokens."""
    MODEL = "model"
    """A small model of its own, which reads the text alone."""
    HEAD = "head"
    """A head that reads the target's hidden states besides the text."""
    LAYERS = "layers"
    """Prediction layers of the target, which read its hidden states, too."""
    BLOCK = "block"
    """A head that drafts a block of one fixed length at once."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Traits:
    """One row of `TRAITS`.

    engine_name: vLLM's name, where it has another one.
    parallel: weights that were trained to draft all tokens in one pass.
    one_pass: a formula has the speed; each drafted position, or each block, is one pass or a look-up.
    skip_tested: in tests on a real engine, steps skipped the drafter and it caught up.
    """

    drafter: Drafter
    tunability: Tunability
    kind: Kind
    engine_name: str = ""
    parallel: bool = False
    one_pass: bool = False
    skip_tested: bool = False

    @property
    def searches_text(self) -> bool:
        """Whether only some steps have draft tokens when K > 0."""
        return self.kind is Kind.TEXT

    @property
    def same_cost(self) -> bool:
        """Whether a draft costs the same for every K: a block, or a look-up."""
        return self.kind in (Kind.BLOCK, Kind.TEXT)

    @property
    def reads_states(self) -> bool:
        """Whether the drafter reads the target's hidden states token by token."""
        return self.kind in (Kind.HEAD, Kind.LAYERS) and not self.parallel

    @property
    def is_head(self) -> bool:
        """A head of EAGLE that drafts token by token."""
        return self.kind is Kind.HEAD and not self.parallel


TRAITS: Mapping[Method, Traits] = {
    Method.NONE: Traits(Drafter.FORBIDDEN, Tunability.STATIC, Kind.NOTHING, one_pass=True),
    Method.DRAFT_MODEL: Traits(
        Drafter.REQUIRED, Tunability.LIVE, Kind.MODEL, one_pass=True, skip_tested=True
    ),
    Method.EAGLE: Traits(Drafter.REQUIRED, Tunability.LIVE, Kind.HEAD, one_pass=True),
    Method.EAGLE3: Traits(Drafter.REQUIRED, Tunability.LIVE, Kind.HEAD, one_pass=True, skip_tested=True),
    Method.P_EAGLE: Traits(Drafter.REQUIRED, Tunability.STATIC, Kind.HEAD, "eagle3", parallel=True),
    Method.PARD: Traits(Drafter.REQUIRED, Tunability.STATIC, Kind.MODEL, "draft_model", parallel=True),
    Method.MTP: Traits(Drafter.OPTIONAL, Tunability.LIVE, Kind.LAYERS, one_pass=True, skip_tested=True),
    Method.NGRAM: Traits(Drafter.FORBIDDEN, Tunability.LIVE, Kind.TEXT, one_pass=True),
    Method.NGRAM_GPU: Traits(Drafter.FORBIDDEN, Tunability.LIVE, Kind.TEXT, one_pass=True),
    Method.SUFFIX: Traits(Drafter.FORBIDDEN, Tunability.STATIC, Kind.TEXT),
    Method.DFLASH: Traits(Drafter.REQUIRED, Tunability.LIVE, Kind.BLOCK, one_pass=True),
    Method.DSPARK: Traits(Drafter.OPTIONAL, Tunability.LIVE, Kind.BLOCK, one_pass=True),
    Method.MEDUSA: Traits(Drafter.REQUIRED, Tunability.STATIC, Kind.OTHER),
    Method.MLP_SPECULATOR: Traits(Drafter.REQUIRED, Tunability.REFUSED, Kind.OTHER),
    Method.CUSTOM_CLASS: Traits(Drafter.FORBIDDEN, Tunability.REFUSED, Kind.OTHER),
}

PIPELINED = tuple(map(Method, PIPELINE_SINCE))
"""Methods that some release of vLLM runs with pipeline stages, on its V2 model runner."""

_SYNONYMS: Mapping[str, Method] = {
    "nextn": Method.MTP,
    "[ngram]": Method.NGRAM,
    "ngram-gpu": Method.NGRAM_GPU,
    "eagle-3": Method.EAGLE3,
    "draft-model": Method.DRAFT_MODEL,
    "suffix_decoding": Method.SUFFIX,
    "d_flash": Method.DFLASH,
}

_BY_DRAFTER: tuple[tuple[str, Method], ...] = (
    ("eagle3", Method.EAGLE3),
    ("eagle-3", Method.EAGLE3),
    ("eagle", Method.EAGLE),
    ("medusa", Method.MEDUSA),
    ("dflash", Method.DFLASH),
    ("dspark", Method.DSPARK),
    ("mtp", Method.MTP),
    ("assistant", Method.MTP),
)


def method_named(name: str) -> Method | None:
    """The method that vLLM, its recipes and model cards call by this name; None where there is none."""
    if name in list(Method):
        return Method(name)
    prediction = name.endswith(("_mtp", "nextn", "assistant"))
    return _SYNONYMS.get(name, Method.MTP if prediction else None)


def method_of_drafter(name: str) -> Method:
    """The method of a drafter whose files have this name, where nothing names one. vLLM reads config.json."""
    lower = name.lower()
    return next((method for part, method in _BY_DRAFTER if part in lower), Method.DRAFT_MODEL)


def methods_with(
    *, drafter: Drafter | None = None, tunability: Tunability | None = None, kind: Kind | None = None
) -> tuple[Method, ...]:
    """Return the methods with these traits, in the order of the registry."""
    return tuple(
        method
        for method, traits in TRAITS.items()
        if drafter in (None, traits.drafter)
        and tunability in (None, traits.tunability)
        and kind in (None, traits.kind)
    )
