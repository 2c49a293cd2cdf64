"""What a case of a reader is, and the cost of one input."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from outrider.foreign import Reader
from tests.unit.foreign.fillers import fillers

MIB = 2**20
_ROOM = 1024 * MIB
"""Address space beyond the test's own: a reader without limits must not take the machine's memory."""
_LONGEST_CPU_SECONDS = 20
_LARGEST_OBJECT = 1_400_000
"""Bytes that the API server takes, and more than any answer has."""
_TOO_LARGE = tuple(
    (f"{name}, too many", value)
    for name, value in fillers(_LARGEST_OBJECT, _LARGEST_OBJECT)
    if name in ("numbers", "objects", "keys", "one text")
)


class Cost(NamedTuple):
    """Of one input."""

    name: str
    cpu_seconds: float
    peak_bytes: int  # beyond what there was before, the input included


@dataclass(frozen=True)
class Case:
    """One reader with the inputs that cost it the most.

    places: by name, the function that puts a value where the reader may find it: the answer is its input.
    read: the reader; what it raises over an input is its answer too.
    beyond: whether inputs larger than the limits reach it.
    more: inputs that no value makes.
    """

    reader: Reader
    places: Mapping[str, Callable[[Any], Any]]
    read: Callable[[Any], object]
    beyond: bool = True
    more: Callable[[], Mapping[str, Any]] = dict

    def inputs(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Name and maker of each input: of the largest size that is admitted, and of the largest there is."""
        reader = self.reader
        admitted = fillers(reader.most_bytes * 9 // 10, reader.most_values * 9 // 10)
        for what, value in (*admitted, *(_TOO_LARGE if self.beyond else ())):
            for place, put in self.places.items():
                yield f"{place}: {what}", lambda put=put, value=value: put(value)
        for name, given in self.more().items():
            yield name, lambda given=given: given

    def cost(self) -> Iterator[Cost]:
        """Of each input, each in a process of its own, so that no memory is left over from another."""
        for name, make in self.inputs():
            yield _measured(name, make, self.read)


def _measured(name: str, make: Callable[[], Any], read: Callable[[Any], object]) -> Cost:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _report(writing, make, read)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read().split()
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != 0 or len(said) != 2:
        return Cost(name, float("inf"), _ROOM)
    return Cost(name, float(said[0]), int(said[1]))


def _report(answer: int, make: Callable[[], Any], read: Callable[[Any], object]) -> None:
    """In the child, which ends here. Whatever goes wrong, nothing of the test goes on in it."""
    ended = 1
    try:
        given = make()
        own = _bytes("VmSize:")
        resource.setrlimit(resource.RLIMIT_AS, (own + _ROOM, own + _ROOM))
        resource.setrlimit(resource.RLIMIT_CPU, (_LONGEST_CPU_SECONDS, _LONGEST_CPU_SECONDS))
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
        before, began = _bytes("VmHWM:"), time.process_time()
        try:
            read(given)
        except MemoryError:
            return
        except Exception:  # noqa: BLE001 - a refusal is an answer, and this is about what it costs
            pass
        seconds, peak = time.process_time() - began, _bytes("VmHWM:") - before
        os.write(answer, f"{seconds} {peak}".encode())
        ended = 0
    finally:
        os._exit(ended)


def _bytes(line: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return next(int(each.split()[1]) * 1024 for each in status.splitlines() if each.startswith(line))
