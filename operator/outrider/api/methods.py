"""The speculation methods, with their traits for admission. plan/runtimes/ has each engine's part."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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


class Drafter(StrEnum):
    """Whether a method needs weights of a drafter."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    FORBIDDEN = "forbidden"


class Tunability(StrEnum):
    """Control of K in a running engine."""

    LIVE = "live"
    """K follows a schedule that can change between two steps."""
    STATIC = "static"
    """The engine keeps the K of its launch."""
    REFUSED = "refused"
    """Not served in this version."""


class Drafting(StrEnum):
    """Whether each step of a request has draft tokens when K > 0."""

    EVERY_STEP = "every step"
    WHEN_FOUND = "when found"
    """A step without a match in the text has no draft tokens."""


@dataclass(frozen=True, slots=True)
class Traits:
    """One row of `TRAITS`."""

    drafter: Drafter
    tunability: Tunability
    drafting: Drafting = Drafting.EVERY_STEP


TRAITS: dict[Method, Traits] = {
    Method.NONE: Traits(Drafter.FORBIDDEN, Tunability.STATIC),
    Method.DRAFT_MODEL: Traits(Drafter.REQUIRED, Tunability.LIVE),
    Method.EAGLE: Traits(Drafter.REQUIRED, Tunability.LIVE),
    Method.EAGLE3: Traits(Drafter.REQUIRED, Tunability.LIVE),
    Method.P_EAGLE: Traits(Drafter.REQUIRED, Tunability.STATIC),
    Method.PARD: Traits(Drafter.REQUIRED, Tunability.STATIC),
    Method.MTP: Traits(Drafter.OPTIONAL, Tunability.LIVE),
    Method.NGRAM: Traits(Drafter.FORBIDDEN, Tunability.LIVE, Drafting.WHEN_FOUND),
    Method.NGRAM_GPU: Traits(Drafter.FORBIDDEN, Tunability.STATIC, Drafting.WHEN_FOUND),
    Method.SUFFIX: Traits(Drafter.FORBIDDEN, Tunability.STATIC, Drafting.WHEN_FOUND),
    Method.DFLASH: Traits(Drafter.REQUIRED, Tunability.LIVE),
    Method.DSPARK: Traits(Drafter.OPTIONAL, Tunability.STATIC),
    Method.MEDUSA: Traits(Drafter.REQUIRED, Tunability.STATIC),
    Method.MLP_SPECULATOR: Traits(Drafter.REQUIRED, Tunability.REFUSED),
    Method.CUSTOM_CLASS: Traits(Drafter.FORBIDDEN, Tunability.REFUSED),
}

OF_ONE_BLOCK = (Method.DFLASH, Method.DSPARK)
"""Methods whose head drafts a block of one fixed length at once."""

PIPELINED = (Method.MTP, Method.EAGLE3, Method.DSPARK)
"""Methods that some release of vLLM runs with pipeline stages, on its V2 model runner. Source: 0.30 to 0.33,
``PPHandler`` and ``verify_supports_aux_hidden_states_over_pp``."""


def methods_with(
    *, drafter: Drafter | None = None, tunability: Tunability | None = None
) -> tuple[Method, ...]:
    """Return the methods with these traits, in the order of the registry."""
    return tuple(
        method
        for method, traits in TRAITS.items()
        if drafter in (None, traits.drafter) and tunability in (None, traits.tunability)
    )
