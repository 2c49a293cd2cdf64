"""Make the tiny target heavy without changing what it computes.

    python -m examples.models.pad --output DIR

A 3 M parameter model fits in a processor's cache, where speculation has nothing to save.
Padding adds layers that write zero to the residual stream, and MLP columns that are zero. So
every step reads about 85 MB while the logits stay the same. The drafters are copied, and the target as it was
trained is copied as ``light``.

Tensors move as 16-bit words: numpy has no bfloat16, and padding does no arithmetic.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.models.shapes import PADDED_TARGET, Shape

WEIGHTS = Path(__file__).parent / "weights"
"""The models as trained, in git."""
MODELS = ("target", "drafter", "eagle3")
LIGHT = "light"
"""The target without padding, for tests that need no cost of a step."""
STAMP = "padded.json"
ONE = 0x3F80
"""1.0 in bfloat16."""

Words = NDArray[np.uint16]


def main() -> None:
    """Pad into ``--output`` unless the same weights are there already."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    output: Path = parser.parse_args().output
    if pad(WEIGHTS, output, PADDED_TARGET):
        print(f"padded models written to {output}")
    else:
        print(f"padded models are in {output} already")


def pad(weights: Path, output: Path, shape: Shape) -> bool:
    """Write all models below `output`; False when they are there from the same weights."""
    sizes = {"layers": shape.layers, "intermediate": shape.intermediate}
    stamp = {"source": _digest(weights), "folders": [*MODELS, LIGHT], **sizes}
    stamp_file = output / STAMP
    output.mkdir(parents=True, exist_ok=True)
    if stamp_file.exists() and json.loads(stamp_file.read_text()) == stamp:
        return False
    stamp_file.unlink(missing_ok=True)
    # Built aside and then moved: an engine that has the old files mapped keeps them whole.
    with tempfile.TemporaryDirectory(dir=output) as aside:
        for name in MODELS:
            shutil.copytree(weights / name, Path(aside) / name)
        shutil.copytree(weights / "target", Path(aside) / LIGHT)
        _pad_in_place(Path(aside) / "target", shape)
        for name in (*MODELS, LIGHT):
            shutil.rmtree(output / name, ignore_errors=True)
            (Path(aside) / name).rename(output / name)
    stamp_file.write_text(json.dumps(stamp) + "\n")
    return True


def _pad_in_place(target: Path, shape: Shape) -> None:
    config = json.loads((target / "config.json").read_text())
    tensors = read_safetensors(target / "model.safetensors")
    padded = pad_tensors(tensors, config["num_hidden_layers"], shape)
    write_safetensors(target / "model.safetensors", padded)
    config |= {"num_hidden_layers": shape.layers, "intermediate_size": shape.intermediate}
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def pad_tensors(tensors: Mapping[str, Words], layers: int, shape: Shape) -> dict[str, Words]:
    """The same function of the input, with more layers and a wider MLP.

    A zero row of ``gate_proj`` and ``up_proj`` meets a zero column of ``down_proj``. An added
    layer has a zero ``o_proj`` and ``down_proj``, so the residual stream passes it unchanged.
    """
    padded = {name: _widen(name, tensor, shape.intermediate) for name, tensor in tensors.items()}
    first = {name: tensor for name, tensor in padded.items() if name.startswith("model.layers.0.")}
    for layer in range(layers, shape.layers):
        for name, tensor in first.items():
            fill = ONE if name.endswith("norm.weight") else 0
            padded[name.replace(".0.", f".{layer}.", 1)] = np.full_like(tensor, fill)
    return padded


def _widen(name: str, tensor: Words, intermediate: int) -> Words:
    if name.endswith(("gate_proj.weight", "up_proj.weight")):
        return np.pad(tensor, ((0, intermediate - tensor.shape[0]), (0, 0)))
    if name.endswith("down_proj.weight"):
        return np.pad(tensor, ((0, 0), (0, intermediate - tensor.shape[1])))
    return tensor


def read_safetensors(path: Path) -> dict[str, Words]:
    """All tensors of a bfloat16 safetensors file, by name."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "BF16":
            raise ValueError(f"{path}: {name} is {entry['dtype']}, not BF16")
        start, end = entry["data_offsets"]
        words = np.frombuffer(content[8 + length + start : 8 + length + end], dtype="<u2")
        tensors[name] = words.reshape(entry["shape"])
    return tensors


def write_safetensors(path: Path, tensors: Mapping[str, Words]) -> None:
    """The inverse of `read_safetensors`; the header is padded to eight bytes as the format asks."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in sorted(tensors.items()):
        header[name] = {
            "dtype": "BF16",
            "shape": tensor.shape,
            "data_offsets": [offset, offset + tensor.nbytes],
        }
        offset += tensor.nbytes
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for _, tensor in sorted(tensors.items()):
            file.write(np.ascontiguousarray(tensor).tobytes())


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main()
