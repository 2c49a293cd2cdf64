"""GPUs: memory, bandwidth and arithmetic of each.

Memory is what the driver shows (`nvidia-smi`), which is more than the number on the box for an H100 and less
for an L40S. Bandwidth and arithmetic are those of NVIDIA's data sheets, dense, without sparsity.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 2**20
_SHEET = "NVIDIA's data sheet, dense; memory as nvidia-smi shows it"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU."""

    name: str
    memory_bytes: float
    bytes_per_second: float
    flops: float  # per second with 16-bit numbers
    flops_8_bit: float | None  # None: it reckons in 16 bits whatever the weights are
    source: str = _SHEET


def _gpu(
    name: str, *, mib: int, tb: float, tflops: float, tflops_8_bit: float | None, source: str = _SHEET
) -> Gpu:
    eight = None if tflops_8_bit is None else tflops_8_bit * 1e12
    return Gpu(name, float(mib * _MIB), tb * 1e12, tflops * 1e12, eight, source)


GPUS: tuple[Gpu, ...] = (
    _gpu("H100", mib=81_559, tb=3.35, tflops=989, tflops_8_bit=1979),
    _gpu("H100-PCIe", mib=81_559, tb=2.0, tflops=756, tflops_8_bit=1513),
    _gpu("H100-NVL", mib=95_830, tb=3.9, tflops=835, tflops_8_bit=1671),
    _gpu("H200", mib=143_771, tb=4.8, tflops=989, tflops_8_bit=1979),
    _gpu("A100-80GB", mib=81_920, tb=2.039, tflops=312, tflops_8_bit=None),
    _gpu("A100-40GB", mib=40_960, tb=1.555, tflops=312, tflops_8_bit=None),
    _gpu("A40", mib=46_068, tb=0.696, tflops=149.7, tflops_8_bit=None),
    _gpu("L40S", mib=46_068, tb=0.864, tflops=362, tflops_8_bit=733),
    _gpu("L4", mib=23_034, tb=0.3, tflops=121, tflops_8_bit=242),
    # Its sheet has one figure, 1000 TFLOPS with sparse 4-bit numbers: an eighth of it with dense 16-bit ones.
    _gpu(
        "GB10",
        mib=122_880,
        tb=0.273,
        tflops=125,
        tflops_8_bit=250,
        source="NVIDIA's data sheet; arithmetic, and 120 GiB of its 128 GB shared memory, assumed",
    ),
)

_ALIASES = {"h100-sxm": "h100", "h100-sxm5": "h100", "a100": "a100-80gb", "h200-sxm": "h200"}

_PRODUCTS = (  # Parts of the label nvidia.com/gpu.product, the more particular ones first.
    ("h100-pcie", "H100-PCIe"),
    ("h100-nvl", "H100-NVL"),
    ("h100", "H100"),
    ("h200", "H200"),
    ("a100-sxm4-40gb", "A100-40GB"),
    ("a100-pcie-40gb", "A100-40GB"),
    ("a100", "A100-80GB"),
    ("a40", "A40"),
    ("l40s", "L40S"),
    ("l4", "L4"),
    ("gb10", "GB10"),
)


def gpu_named(name: str) -> Gpu | None:
    """By its name in `GPUS`, in any case, with blanks or dashes; None: not in the table."""
    wanted = name.strip().lower().replace(" ", "-").replace("_", "-")
    wanted = _ALIASES.get(wanted, wanted)
    return next((gpu for gpu in GPUS if gpu.name.lower() == wanted), None)


def gpu_of_product(label: str) -> Gpu | None:
    """By a node's label ``nvidia.com/gpu.product``, such as NVIDIA-H100-80GB-HBM3; None: not in the table."""
    words = f"{label.lower()}-"
    found = next((name for part, name in _PRODUCTS if f"{part}-" in words), None)
    return None if found is None else gpu_named(found)
