"""GPUs: memory, bandwidth and arithmetic of each.

Memory is what the driver shows (`nvidia-smi`, `rocm-smi`), which is more than the number on the box for an
H100 and less for an L40S. Bandwidth and arithmetic are those of the vendors' data sheets, dense, without
sparsity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MIB = 2**20
_SHEET = "NVIDIA's data sheet, dense; memory as nvidia-smi shows it"
_AMD_SHEET = "AMD's data sheet, dense; memory as rocm-smi shows it"
_AIC = "NVIDIA's aiconfigurator, systems/{}.yaml, dense; memory as nvidia-smi shows it"


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
    _gpu("H20", mib=97_871, tb=4.0, tflops=148, tflops_8_bit=296),
    _gpu("B200", mib=183_359, tb=7.7, tflops=2250, tflops_8_bit=4500, source=_AIC.format("b200_sxm")),
    _gpu("B300", mib=275_040, tb=7.75, tflops=2250, tflops_8_bit=4500, source=_AIC.format("b300_sxm")),
    _gpu("GB200", mib=189_471, tb=8.0, tflops=2500, tflops_8_bit=5000, source=_AIC.format("gb200")),
    _gpu("GB300", mib=284_208, tb=8.0, tflops=2500, tflops_8_bit=5000, source=_AIC.format("gb300")),
    _gpu(
        "RTX-PRO-6000",
        mib=97_887,
        tb=1.792,
        tflops=467.8,
        tflops_8_bit=935.6,
        source=_AIC.format("rtx_pro_6000_server"),
    ),
    _gpu(
        "RTX-5090",
        mib=32_607,
        tb=1.792,
        tflops=209.5,
        tflops_8_bit=419,
        source="NVIDIA's paper on RTX Blackwell, dense, summed in 32 bits; memory as nvidia-smi shows it",
    ),
    _gpu("MI300X", mib=196_592, tb=5.3, tflops=1307.4, tflops_8_bit=2614.9, source=_AMD_SHEET),
    _gpu(
        "MI325X",
        mib=244_140,  # 256 GB of the sheet.
        tb=6.0,
        tflops=1307.4,
        tflops_8_bit=2614.9,
        source="AMD's data sheet, dense; memory as on the sheet",
    ),
    _gpu("MI355X", mib=294_896, tb=8.0, tflops=2500, tflops_8_bit=5000, source=_AMD_SHEET),
)

_ALIASES = {
    "h100-sxm": "h100",
    "h100-sxm5": "h100",
    "a100": "a100-80gb",
    "h200-sxm": "h200",
    "rtx-pro-6000-blackwell": "rtx-pro-6000",
}

_PRODUCTS = (  # Words of the label nvidia.com/gpu.product, the more particular ones first.
    ("a100-sxm4-40gb", "A100-40GB"),
    ("a100-pcie-40gb", "A100-40GB"),
    ("a100", "A100-80GB"),
    ("rtx-pro-6000-blackwell", "RTX-PRO-6000"),
    ("geforce-rtx-5090", "RTX-5090"),
    *(
        (name.lower(), name)
        for name in sorted((gpu.name for gpu in GPUS), key=len, reverse=True)
        if name[:4] not in ("A100", "RTX-")
    ),
)
_OTHER_PRODUCTS = ("mig", "shared", "laptop", "h20-3e", "rtx-5090-d")
"""Words in labels of GPUs that share a name with one of the table and have less or more than it.

They are MIG partitions, GPUs that several pods share, and variants.
"""
_GIGABYTES = re.compile(r"-(\d+)gb-")
_ROUNDED = 0.1
"""A label's gigabytes are rounded, some of them to powers of two."""


def gpu_named(name: str) -> Gpu | None:
    """By its name in `GPUS`, in any case, with blanks or dashes, or a node's label; None: not known."""
    wanted = name.strip().lower().replace(" ", "-").replace("_", "-")
    wanted = _ALIASES.get(wanted, wanted)
    found = next((gpu for gpu in GPUS if gpu.name.lower() == wanted), None)
    return found or gpu_of_product(wanted)


def gpu_of_product(label: str) -> Gpu | None:
    """By a node's label ``nvidia.com/gpu.product``, such as NVIDIA-H100-80GB-HBM3, or AMD's
    ``amd.com/gpu.product-name``; None: not in the table, a partition, or a variant with other memory."""
    words = f"-{label.strip().lower().replace('_', '-').replace(' ', '-')}-"
    if any(f"-{word}-" in words for word in _OTHER_PRODUCTS):
        return None
    name = next((name for part, name in _PRODUCTS if f"-{part}-" in words), None)
    found = next((gpu for gpu in GPUS if gpu.name == name), None)
    size = _GIGABYTES.search(words)
    if found is None or size is None:
        return found
    return found if abs(int(size[1]) * 1e9 - found.memory_bytes) <= _ROUNDED * found.memory_bytes else None
