"""Well-known models by name, out of `known_models.json`.

Fields are those of each config.json on the Hugging Face hub. Those of layers of several kinds were read in
NVIDIA's aiconfigurator (`model_configs/`), Hugging Face's transformers and the model cards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter

from outrider.sizing.architecture import Architecture, Precision
from outrider.sizing.hf_config import read_fields


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
    speculator: bool = False  # RedHatAI publishes an EAGLE-3 head for it
    predicts: bool = False
    config: dict[str, JsonValue]  # fields of its config.json that say what its layers are

    def model(self) -> KnownModel:
        short = self.repository.rpartition("/")[2]
        name = self.name or short.removesuffix("-Instruct").removesuffix("-it")
        head = f"hf://RedHatAI/{short}-speculator.eagle3" if self.speculator else None
        found = read_fields(self.config, name=name)
        return KnownModel(f"hf://{self.repository}", found, head, self.also, self.predicts)


_FILE = Path(__file__).with_name("known_models.json")
KNOWN_MODELS: tuple[KnownModel, ...] = tuple(
    entry.model() for entry in TypeAdapter(list[_Entry]).validate_json(_FILE.read_bytes())
)

_WEIGHTS = (
    r"fp8|bf16|fp16|awq|gptq|int4|int8|w4a16|w8a8|w8a16|quantized\.w\d+a\d+|dynamic|nvfp4|mxfp4|mxfp8|fp4|"
    "bnb-4bit"
)
_QUANTISED = re.compile(f"-({_WEIGHTS})$")
_VARIANT = re.compile(f"-({_WEIGHTS}|instruct|it|chat|base|hf|2507)$")
_PRECISIONS = (  # The more particular ones first.
    (Precision.NVFP4, ("nvfp4",)),
    (Precision.MXFP4, ("mxfp4",)),
    (Precision.NVFP4, ("-fp4",)),  # As NVIDIA named its first ones.
    (Precision.MXFP8, ("mxfp8",)),
    (Precision.FP8, ("fp8",)),
    (Precision.INT8, ("int8", "w8a8", "w8a16")),
    (Precision.INT4, ("awq", "gptq", "int4", "w4a16", "bnb-4bit")),
    (Precision.BF16, ("bf16", "fp16")),
)


def known_model(name: str) -> KnownModel | None:
    """By a name or URI, with or without organisation, quantised as it says; None: not in the table.

    Also for models that only have the dimensions of a known one.
    """
    short = _without(_VARIANT, name)
    for known in KNOWN_MODELS:
        if short in (_without(_VARIANT, known.uri), *known.also):
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
    names = (_without(_QUANTISED, known.uri), known.architecture.name.lower())
    return known if _without(_QUANTISED, name) in names else None


def as_published(known: KnownModel) -> bool:
    """With the weights of its own repository, and no quantisation of others."""
    table = next(each for each in KNOWN_MODELS if each.uri == known.uri)
    return table.architecture.precision is known.architecture.precision


def precision_in(name: str) -> Precision | None:
    """What a model's name says of its weights; None: nothing."""
    words = name.lower()
    return next((p for p, marks in _PRECISIONS if any(mark in words for mark in marks)), None)


def _without(suffix: re.Pattern[str], name: str) -> str:
    """The last part of a name or URI in lower case, without such suffixes."""
    text = name.rstrip("/").rsplit("/", 1)[-1].lower()
    while (shorter := suffix.sub("", text)) != text:
        text = shorter
    return text.removeprefix("meta-")
