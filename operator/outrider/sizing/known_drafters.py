"""Published drafters by target, out of `known_drafters.json`. Nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from outrider.sizing.names import without_quantisation
from outrider_protocol.methods import Method

_PROPOSED_BY = "RedHatAI/"
"""The publisher in the list of the vLLM project itself."""

_Repository = Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]


@dataclass(frozen=True, slots=True)
class KnownDrafter:
    """A drafter that someone published for a target.

    draft_tokens: the length that its source gives; None: it gives none. read: the day of its source.
    """

    target: str
    uri: str
    method: Method
    draft_tokens: int | None
    source: str
    read: date


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    target: _Repository
    drafter: _Repository
    method: Method
    draft_tokens: Annotated[int, Field(ge=1)] | None = None


class _Group(BaseModel):
    """Drafters of one source. date: of the source's own state, or of the day on which it was read."""

    model_config = ConfigDict(extra="forbid")

    source: str
    date: date
    drafters: Sequence[_Entry]

    def known(self) -> Sequence[KnownDrafter]:
        return [
            KnownDrafter(
                each.target, f"hf://{each.drafter}", each.method, each.draft_tokens, self.source, self.date
            )
            for each in self.drafters
        ]


_FILE = Path(__file__).with_name("known_drafters.json")
KNOWN_DRAFTERS: Sequence[KnownDrafter] = tuple(
    known for group in TypeAdapter(list[_Group]).validate_json(_FILE.read_bytes()) for known in group.known()
)


def drafters_of(target: str) -> Sequence[KnownDrafter]:
    """The drafters of a target by its name or URI, quantised or not. Another fine-tune has none."""
    name = without_quantisation(target)
    return tuple(each for each in KNOWN_DRAFTERS if without_quantisation(each.target) == name)


def proposed_head(repository: str) -> str | None:
    """The EAGLE-3 head that ``outrider plan`` and ``import`` write into a manifest; None without one."""
    return next(
        (
            each.uri
            for each in KNOWN_DRAFTERS
            if each.target == repository
            and each.method is Method.EAGLE3
            and each.uri.startswith(f"hf://{_PROPOSED_BY}")
        ),
        None,
    )
