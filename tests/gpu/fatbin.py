"""The GPU code of a library, for one GPU only. Pure.

nvcc puts the code for each architecture side by side into a library, in the section of fat binaries. The code
of other architectures is overwritten with zeros: the library stays as it is otherwise, and an archive of it
shrinks. Layout: observed in the libraries of vLLM's wheels.
"""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<IHHQ")
"""Magic number, version, size of this header, size of all entries."""
_MAGIC, _VERSION = 0xBA55ED50, 1
_ENTRY = struct.Struct("<HHIQIIHHI")
"""Kind, attributes, size of this header, size of the code, compressed size, unknown, version (minor and
major), architecture."""
_KINDS = (1, 2)
"""PTX and machine code."""


def leave_one(library: bytearray, architecture: int) -> int:
    """Overwrite the code of all architectures but this one (90 is 9.0); the number of bytes of that code.

    Bytes that only look like a fat binary stay as they are.
    """
    place = zeros = 0
    last = len(library) - _HEADER.size + 4
    while (place := library.find(struct.pack("<I", _MAGIC), place, last)) >= 0:
        _, version, header, size = _HEADER.unpack_from(library, place)
        begin, end = place + header, place + header + size
        if version != _VERSION or header != _HEADER.size or end > len(library):
            place += 4
            continue
        while begin + _ENTRY.size <= end:
            kind, _, entry, code, _, _, _, _, found = _ENTRY.unpack_from(library, begin)
            if kind not in _KINDS or entry < _ENTRY.size or begin + entry + code > end:
                break
            if found != architecture:
                library[begin + entry : begin + entry + code] = bytes(code)
                zeros += code
            begin += entry + code
        place = end
    return zeros
