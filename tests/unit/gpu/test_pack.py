"""Wheels for a machine without a network."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.gpu.fatbin import leave_one
from tests.gpu.pack import MEBIBYTE, leave_out, needed, write_parts

RESOLVED = [
    "torch==2.11.0",
    "nvidia-cublas==13.1.0.3",
    "PyYAML==6.0.3",
    "vllm==0.26.0  # a comment",
    "",
    "uvicorn[standard]==0.38.0",
]


def test_packages_that_the_machine_has_are_not_packed() -> None:
    assert needed(RESOLVED, ["torch"]) == ["PyYAML==6.0.3", "vllm==0.26.0", "uvicorn[standard]==0.38.0"]


def test_names_are_compared_as_the_package_index_does() -> None:
    assert needed(["huggingface_hub==1.0.0", "x==1"], ["huggingface-hub"]) == ["x==1"]


def test_the_parts_are_within_the_limit_and_make_the_folder_again(tmp_path: Path) -> None:
    site, output, again = (tmp_path / name for name in ("site", "parts", "again"))
    (site / "package").mkdir(parents=True)
    content = os.urandom(2 * MEBIBYTE + 7)
    (site / "package" / "module.so").write_bytes(content)
    output.mkdir()
    (output / "part-99").write_text("of an earlier run")
    parts = write_parts(site, output, 1)
    assert [part.name for part in parts] == ["part-00", "part-01", "part-02"]
    assert sorted(output.iterdir()) == parts
    assert all(part.stat().st_size <= MEBIBYTE for part in parts)
    again.mkdir()
    command = f"cat {output}/part-* | xz -d | tar x -C {again}"
    subprocess.run(["sh", "-c", command], check=True)
    assert (again / "package" / "module.so").read_bytes() == content


def test_code_of_other_architectures_is_zeroed_and_the_rest_stays() -> None:
    library = bytearray(b"before" + a_fat_binary((2, 80, b"other"), (2, 90, b"own!!"), (1, 120, b"more!")))
    library += b"after"
    kept = bytearray(library)
    assert leave_one(library, 90) == 10
    assert library == kept.replace(b"other", bytes(5)).replace(b"more!", bytes(5))
    assert leave_one(library, 90) == 10, "a second time changes nothing"


@given(st.binary(max_size=200))
def test_any_bytes_are_read_as_a_library(content: bytes) -> None:
    library = bytearray(content + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 2**40) + content)
    before = bytes(library)
    assert leave_one(library, 90) == 0
    assert library == before


def a_fat_binary(*entries: tuple[int, int, bytes]) -> bytes:
    """Of entries with kind, architecture and code."""
    written = b"".join(
        struct.pack("<HHIQIIHHI", kind, 0, 32, len(code), 0, 0, 0, 0, architecture) + code
        for kind, architecture, code in entries
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(written)) + written


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    for name in ("a/kernel.so", "a/kept.py", "a/__pycache__/x.pyc", "bin/tool"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert leave_out(tmp_path, ["a/*.so", "bin"]) == ["a/kernel.so", "bin"]
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["a", "a/kept.py"]
