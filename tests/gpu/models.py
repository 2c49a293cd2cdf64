"""The models of a check: found on this machine, or made without weights at the size of real ones.

A made model is a folder with the configuration of a public architecture and the tiny byte tokenizer. vLLM
fills its weights with small random numbers (``--load-format dummy``). Its step times are those of real
weights, because no step depends on their values. Its acceptance is not, so vLLM accepts drafts by chance
at chosen rates (``rejection_sample_method: synthetic``, on both model runners of 0.26 to 0.33).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path

from examples.models.mimo import described as as_mimo
from examples.models.pad import WEIGHTS
from outrider_protocol.methods import Method

TARGET_VARIABLE, DRAFTER_VARIABLE = "OUTRIDER_GPU_TARGET", "OUTRIDER_GPU_DRAFTER"
"""Folders of models with weights."""

ACCEPTANCE = (0.72, 0.67, 0.65, 0.64, 0.63)
"""Chance of each position, if the one before it was accepted; about an EAGLE-3 head on chat. Chosen."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one Llama."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    positions: int

    def described(self) -> dict[str, object]:
        """The configuration, as transformers reads it."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "dtype": "bfloat16",
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.positions,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"},
            "tie_word_embeddings": False,
            "bos_token_id": 256,
            "eos_token_id": 256,
        }


@dataclass(frozen=True, slots=True)
class Size:
    """Shapes of a target and its drafters. features: layers of the target that an EAGLE-3 head reads."""

    target: Shape
    drafter: Shape
    head: Shape
    draft_vocabulary: int
    features: tuple[int, int, int]


LLAMA_8B = Shape(32, 4096, 14336, 32, 8, 128, 128_256, 8192)
"""Source: the sizes of Llama 3.1 8B in `operator/outrider/sizing/known_models.json`."""
REAL = Size(
    target=LLAMA_8B,
    drafter=Shape(16, 2048, 8192, 32, 8, 64, 128_256, 8192),
    head=Shape(1, 4096, 14336, 32, 8, 128, 128_256, 8192),
    draft_vocabulary=32_000,
    features=(2, 16, 29),
)
"""An 8B target, a 1B draft model and a head of one layer. features: vLLM's own choice for 32 layers."""
SMALL = Size(
    target=Shape(4, 128, 256, 2, 2, 64, 512, 512),
    drafter=Shape(1, 128, 256, 2, 2, 64, 512, 512),
    head=Shape(1, 128, 256, 2, 2, 64, 512, 512),
    draft_vocabulary=384,
    features=(1, 2, 3),
)
"""The same architectures for a run without a GPU."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A target with its drafter. drafter: None for methods that have none of their own. made: without
    weights."""

    target: Path
    drafter: Path | None
    made: bool

    def described(self) -> dict[str, object]:
        """For the result."""
        return {name: value if value is None else str(value) for name, value in asdict(self).items()} | {
            "made": self.made
        }


PUBLIC: Mapping[Method, Sequence[tuple[str, str]]] = {
    Method.EAGLE3: (("Qwen/Qwen3-8B", "RedHatAI/Qwen3-8B-speculator.eagle3"),),
    Method.DRAFT_MODEL: (("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B"),),
}
"""Targets with drafters that the check takes from a Hugging Face cache; the first is that of the README."""
MAKEABLE = (Method.EAGLE3, Method.DRAFT_MODEL, Method.MTP)


def find_or_make(method: Method, folder: Path, size: Size, variables: Mapping[str, str]) -> Pair:
    """The models that the variables name, those of a Hugging Face cache, or made ones in `folder`.

    Raises:
        ValueError: no such models are here, and the method is not one that models are made for.
    """
    found = next(_found(method, variables), None)
    return make(method, folder, size) if found is None else found


def _found(method: Method, variables: Mapping[str, str]) -> Iterator[Pair]:
    if target := variables.get(TARGET_VARIABLE):
        drafter = variables.get(DRAFTER_VARIABLE)
        yield Pair(Path(target), Path(drafter) if drafter else None, made=False)
    hub = hub_folder(variables)
    for names in PUBLIC.get(method, ()):
        snapshots = [snapshot(hub, name) for name in names]
        if None not in snapshots:
            target_folder, drafter_folder = (found for found in snapshots if found is not None)
            yield Pair(target_folder, drafter_folder, made=False)


def hub_folder(variables: Mapping[str, str]) -> Path:
    """The cache of huggingface_hub, by the variables that it reads."""
    home = Path(variables.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    return Path(variables.get("HF_HUB_CACHE") or home / "hub")


def snapshot(hub: Path, repository: str) -> Path | None:
    """A complete download of a repository in that cache; None without one."""
    folders = sorted((hub / f"models--{repository.replace('/', '--')}" / "snapshots").glob("*"))
    whole = (each for each in folders if (each / "config.json").exists() and any(each.glob("*.safetensors")))
    return next(whole, None)


def make(method: Method, folder: Path, size: Size) -> Pair:
    """Models without weights.

    Raises:
        ValueError: nothing can be made for this method; the message names those that can.
    """
    if method not in MAKEABLE:
        names = ", ".join(MAKEABLE)
        raise ValueError(
            f"no models for {method} are here, and the check makes models for {names} only; name folders "
            f"in {TARGET_VARIABLE} and {DRAFTER_VARIABLE}"
        )
    config = size.target.described()
    if method is Method.MTP:
        return Pair(_write(folder / "target", as_mimo(config)), None, made=True)
    target = _write(folder / "target", config)
    if method is Method.DRAFT_MODEL:
        return Pair(target, _write(folder / "drafter", size.drafter.described()), made=True)
    return Pair(target, _write(folder / "head", _head(size)), made=True)


def _head(size: Size) -> dict[str, object]:
    """The configuration of an EAGLE-3 head. The V2 runner reads the layers at its top."""
    layers = list(size.features)
    own = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": size.draft_vocabulary,
        "target_hidden_size": size.target.hidden,
        "eagle_aux_hidden_state_layer_ids": layers,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": layers},
    }
    return size.head.described() | own


def _write(folder: Path, config: Mapping[str, object]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(WEIGHTS / "target" / file, folder)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    return folder


def synthetic_acceptance(k: int) -> dict[str, object]:
    """Keys of vLLM's speculative configuration with which it accepts by chance.

    The rates are those of a position and all before it. Positions beyond `ACCEPTANCE` have its last chance.
    """
    chances = [*ACCEPTANCE[:k], *[ACCEPTANCE[-1]] * (k - len(ACCEPTANCE))]
    rates = [round(rate, 4) for rate in accumulate(chances, mul)]
    return {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rates}
