"""What a case of a reader is, and the cost of one input."""

from __future__ import annotations

import gc
import json
import math
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
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


class Worst(NamedTuple):
    """The most that one of the inputs cost."""

    inputs: int
    cpu_seconds: float
    slowest: str
    peak_bytes: int  # beyond what there was before, the inputs included
    largest: str


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
        for what, value in (*admitted, *(_too_large() if self.beyond else ())):
            for place, put in self.places.items():
                yield f"{place}: {what}", partial(put, value)
        for name, given in self.more().items():
            yield name, partial(itself, given)

    def worst(self) -> Worst:
        """What the inputs cost, in a process of its own: nothing that was read before has made room in it."""
        _too_large()  # made here, it serves all cases
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._measure(writing)
        os.close(writing)
        with os.fdopen(reading) as answer:
            lines = [json.loads(line) for line in answer]
        _, status = os.waitpid(child, 0)
        return _summed(lines, ended_well=os.waitstatus_to_exitcode(status) == 0)

    def _measure(self, answer: int) -> None:
        """In the child, which ends here. After any failure, nothing of the test continues in it."""
        ended = 1
        try:
            inputs = [(name, make()) for name, make in self.inputs()]
            gc.freeze()  # a collection that looks at all inputs must not count for one
            _limit()
            before, defects = _bytes("VmHWM:"), 0
            for name, given in inputs:
                os.write(answer, json.dumps({"name": name}).encode() + b"\n")
                began = time.process_time()
                try:
                    self.read(given)
                except MemoryError:
                    return
                except (AttributeError, NameError, TypeError):
                    defects += 1
                except Exception:  # noqa: BLE001 - a refusal is an answer, and this is about what it costs
                    pass
                cost = {"cpu": time.process_time() - began, "peak": _bytes("VmHWM:") - before, "name": name}
                os.write(answer, json.dumps(cost).encode() + b"\n")
            ended = int(defects == len(inputs))  # a case that calls no reader measures none
        finally:
            os._exit(ended)


@cache
def _too_large() -> tuple[tuple[str, Any], ...]:
    return tuple(
        (f"{name}, too many", value)
        for name, value in fillers(_LARGEST_OBJECT, _LARGEST_OBJECT)
        if name in ("numbers", "objects", "keys", "one text")
    )


def itself(given: Any) -> Any:
    return given


def _summed(lines: list[dict[str, Any]], *, ended_well: bool) -> Worst:
    costs = [line for line in lines if "cpu" in line]
    if not ended_well or not costs:
        last = lines[-1]["name"] if lines else "the first input"
        return Worst(len(costs), math.inf, last, _ROOM, last)
    slowest = max(costs, key=lambda line: line["cpu"])
    largest = max(costs, key=lambda line: line["peak"])  # the first one that reached it
    return Worst(len(costs), slowest["cpu"], slowest["name"], largest["peak"], largest["name"])


def _limit() -> None:
    own = _bytes("VmSize:")
    resource.setrlimit(resource.RLIMIT_AS, (own + _ROOM, own + _ROOM))
    used = math.ceil(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + _LONGEST_CPU_SECONDS, used + _LONGEST_CPU_SECONDS))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew


def _bytes(line: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return next(int(each.split()[1]) * 1024 for each in status.splitlines() if each.startswith(line))
