"""Well-known models by name, out of `known_models.json`.

Fields are those of each config.json on the Hugging Face hub. Those of layers of several kinds were read in
NVIDIA's aiconfigurator (`model_configs/`), Hugging Face's transformers and the model cards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter

from outrider.sizing.architecture import Architecture, Precision
from outrider.sizing.hf_config import read_fields
from outrider.sizing.known_drafters import proposed_head
from outrider.sizing.names import QUANTISED, VARIANT, precision_in, without


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model, and the drafter that is published for it."""

    uri: str
    architecture: Architecture
    drafter_uri: str | None = None  # EAGLE-3
    also: tuple[str, ...] = ()  # other models of the same dimensions
    predicts: bool = False  # it has a layer of its own for next tokens (MTP)

    @property
    def source(self) -> str:
        """Where the dimensions were read."""
        return f"config.json of {self.uri.removeprefix('hf://')}"


class _Entry(BaseModel):
    """A model of the file."""

    model_config = ConfigDict(extra="forbid")

    repository: str  # on the Hugging Face hub
    name: str | None = None  # default: the repository's last part, without -Instruct or -it
    also: tuple[str, ...] = ()
    predicts: bool = False
    config: dict[str, JsonValue]  # fields of its config.json that say what its layers are

    def model(self) -> KnownModel:
        short = self.repository.rpartition("/")[2]
        name = self.name or short.removesuffix("-Instruct").removesuffix("-it")
        head = proposed_head(self.repository)
        found = read_fields(self.config, name=name)
        return KnownModel(f"hf://{self.repository}", found, head, self.also, self.predicts)


_FILE = Path(__file__).with_name("known_models.json")
KNOWN_MODELS: tuple[KnownModel, ...] = tuple(
    entry.model() for entry in TypeAdapter(list[_Entry]).validate_json(_FILE.read_bytes())
)


def known_model(name: str) -> KnownModel | None:
    """By a name or URI, with or without organisation, quantised as it says; None: not in the table.

    Also for models that only have the dimensions of a known one.
    """
    short = without(VARIANT, name)
    for known in KNOWN_MODELS:
        if short in (without(VARIANT, known.uri), *known.also):
            return replace(known, architecture=_quantised(known.architecture, precision_in(name)))
    return None


def _quantised(found: Architecture, precision: Precision | None) -> Architecture:
    """As its name says; without a word, as it is published."""
    if precision in (None, found.precision):
        return found
    return replace(found, precision=precision, weight_bytes_by_part=None)


def same_model(name: str) -> KnownModel | None:
    """`known_model`, of the very same weights, quantised or not."""
    known = known_model(name)
    if known is None:
        return None
    names = (without(QUANTISED, known.uri), known.architecture.name.lower())
    return known if without(QUANTISED, name) in names else None


def as_published(known: KnownModel) -> bool:
    """With the weights of its own repository, and no quantisation of others."""
    table = next(each for each in KNOWN_MODELS if each.uri == known.uri)
    return table.architecture.precision is known.architecture.precision
