"""Wheels for a machine with a GPU and without a network: ``python -m tests.gpu.pack --release 0.33.0``.

It takes vLLM, what it needs beyond the packages that are there, Outrider's plugin, and what the check itself
imports, for another Python and Linux than this machine's. It writes them as one compressed archive in parts.
On the other machine, from a copy of the repository:

    mkdir /tmp/site && cat part-* | xz -d -T0 | tar x -C /tmp/site
    PYTHONPATH=/tmp/site OUTRIDER_ENGINE_PYTHON=$(command -v python3) \\
      python3 -m tests.gpu --plugin /tmp/site

vLLM pins one release of torch; the last line names it. The libraries of vLLM 0.33.0 use torch's stable
interface: on one H200 they ran with torch 2.11.0, although vLLM pins 2.14.0. Older releases need their own.

The archive has the GPU code of one architecture (``--architecture``) and no optional kernels: no FlashInfer,
DeepGEMM, FlashMLA, or FlashAttention 2. vLLM 0.33.0 then takes less than 80 MiB.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from engine_image.build import UV
from outrider_protocol.releases import DEFAULT_RELEASE
from tests.gpu.fatbin import leave_one

OUTPUT = Path("out/gpu-pack")
PRESENT = ("torch", "torchvision", "torchaudio", "triton", "transformers", "tokenizers", "safetensors")
PRESENT_TOO = (
    *("aiohttp", "contourpy", "cuda-bindings", "cuda-core", "cuda-pathfinder", "einops"),
    *("fonttools", "fsspec", "grpcio", "hf-xet", "huggingface-hub", "jinja2", "kiwisolver"),
    *("llvmlite", "lxml", "matplotlib", "ml-dtypes", "networkx", "ninja", "numba", "numpy"),
    *("opencv-python-headless", "pandas", "pillow", "protobuf", "psutil", "scipy"),
    *("sentencepiece", "setuptools", "sympy", "tiktoken", "uvloop"),
)
"""Packages of a machine that is prepared for torch and transformers, beside those that begin with
`PRESENT_PREFIX`."""
PRESENT_PREFIX = "nvidia-"
OPTIONAL = (
    *("cuda-python", "fastsafetensors", "flashinfer-python", "humming-kernels"),
    *("instanttensor", "nccl-extensions", "nccl4py", "obstore", "pynvvideocodec"),
    *("quack-kernels", "tilelang", "tokenspeed-mla", "tokenspeed-triton", "torchcodec"),
    *("z3-solver",),
)
"""Kernels and loaders that vLLM imports only where a launch wants them. What the check starts wants none."""
WITHOUT = (
    *("bin", "mistral_common/data", "pycountry/locales", "kubernetes/aio", "vllm/vllm-rs"),
    *("vllm/_deepselect*", "vllm/_flashkda*", "vllm/_flashmla*", "vllm/_qutlass*"),
    *("vllm/third_party/deep_gemm", "vllm/third_party/fmha_sm100", "vllm/vllm_flash_attn/_vllm_fa2*"),
)
"""Files that such a launch does not want."""
CHECK = ("cryptography", "httpx", "matplotlib", "pytest", "pytest-xdist", "pyyaml")
"""What the check imports beyond vLLM and the operator."""
OWN = ("operator", "engine_image", "engine_image/protocol")
MEBIBYTE = 2**20


def needed(resolved: Iterable[str], present: Collection[str]) -> list[str]:
    """Pinned requirements without comments, and without packages that the machine has."""
    pins = [line.split("#")[0].strip() for line in resolved]
    names = {pin: _normal(pin.partition("==")[0].partition("[")[0]) for pin in pins if pin}
    return [
        pin
        for pin, name in names.items()
        if name not in {_normal(each) for each in present} and not name.startswith(PRESENT_PREFIX)
    ]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def resolve(release: str, python: str, platform: str) -> list[str]:
    """Pinned requirements of vLLM, the operator and the check.

    Raises:
        subprocess.CalledProcessError: nothing fits; uv has written why.
    """
    wanted = "\n".join([f"vllm=={release}", *CHECK, *(str(Path(each).resolve()) for each in OWN)])
    target = ["--python-version", python, "--python-platform", platform]
    command = [UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate", *target, "-"]
    found = subprocess.run(command, input=wanted, capture_output=True, text=True, check=False)
    if found.returncode:
        print(found.stderr, file=sys.stderr)
        found.check_returncode()
    return [line for line in found.stdout.splitlines() if "==" in line]


def install(site: Path, pins: Sequence[str], python: str, platform: str) -> None:
    """Put the wheels and Outrider's own packages into a folder."""
    target = ["--python-version", python, "--python-platform", platform, "--target", str(site)]
    command = [UV, "pip", "install", "--quiet", "--no-deps", *target]
    requirements = site.with_suffix(".txt")
    requirements.write_text("\n".join(pins) + "\n")
    subprocess.run([*command, "--only-binary", ":all:", "-r", str(requirements)], check=True)
    subprocess.run([*command, *(str(Path(each).resolve()) for each in OWN)], check=True)


def leave_out(site: Path, patterns: Iterable[str]) -> list[str]:
    """Remove files and folders by pattern, and name those that were there. Bytecode goes, too."""
    removed = []
    for pattern in (*patterns, "**/__pycache__"):
        for path in sorted(site.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
            if path.name != "__pycache__":
                removed.append(str(path.relative_to(site)))
    return removed


def thin(site: Path, architecture: int) -> list[str]:
    """Leave the GPU code of one architecture in all libraries, and name those that had more."""
    thinned = []
    for path in sorted(site.rglob("*.so")):
        library = bytearray(path.read_bytes())
        if leave_one(library, architecture):
            path.write_bytes(library)
            thinned.append(str(path.relative_to(site)))
    return thinned


def write_parts(site: Path, output: Path, mebibytes: int) -> list[Path]:
    """The folder as an archive for tar and xz, in parts of at most so many MiB, named in their order."""
    output.mkdir(parents=True, exist_ok=True)
    for old in output.glob("part-*"):
        old.unlink()
    archive = subprocess.Popen(["tar", "-C", str(site), "-c", "."], stdout=subprocess.PIPE)
    packed = subprocess.Popen(["xz", "-T0", "-6", "-c"], stdin=archive.stdout, stdout=subprocess.PIPE)
    assert archive.stdout is not None
    assert packed.stdout is not None
    archive.stdout.close()
    parts: list[Path] = []
    while piece := packed.stdout.read(mebibytes * MEBIBYTE):
        parts.append(output / f"part-{len(parts):02d}")
        parts[-1].write_bytes(piece)
    for process in (archive, packed):
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, process.args)
    return parts


def main(arguments: Sequence[str]) -> int:
    """0 where the parts are written."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu.pack",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--release", default=DEFAULT_RELEASE, help=f"of vLLM (default: {DEFAULT_RELEASE})")
    parser.add_argument("--python", default="3.12", help="of the other machine (default: 3.12)")
    parser.add_argument("--platform", default="x86_64-manylinux_2_39", help="for uv (default: %(default)s)")
    parser.add_argument(
        "--present", default=",".join((*PRESENT, *PRESENT_TOO)), help="packages that are there"
    )
    optional = ",".join((*OPTIONAL, *WITHOUT))
    parser.add_argument("--architecture", type=int, default=90, help="of the GPU (default: 90, an H100)")
    parser.add_argument(
        "--without", default=optional, help="packages and patterns of files (default: %(default)s)"
    )
    parser.add_argument("--part-mib", type=int, default=44, help="at most (default: 44)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"folder (default: {OUTPUT})")
    given = parser.parse_args(arguments)
    resolved = resolve(given.release, given.python, given.platform)
    without = given.without.split(",")
    pins = needed(resolved, [*given.present.split(","), *without])
    with tempfile.TemporaryDirectory() as name:
        site = Path(name) / "site"
        install(site, pins, given.python, given.platform)
        for path in leave_out(site, without):
            print(f"without {path}")
        for path in thin(site, given.architecture):
            print(f"only for {given.architecture}: {path}")
        parts = write_parts(site, given.output, given.part_mib)
    size = sum(part.stat().st_size for part in parts) / MEBIBYTE
    print(f"{len(parts)} parts, {size:.0f} MiB, in {given.output}; vLLM {given.release}")
    print(f"the other machine must have: {', '.join(p for p in resolved if p.startswith('torch=='))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
