"""What a kind of source is: how to recognise its objects, and the engines in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from outrider.importing.workload import Workload
from outrider.plan.overlay import Json


@dataclass(frozen=True, slots=True)
class Source:
    """A kind of object that runs vLLM."""

    name: str
    """As people call it."""
    takes: Callable[[Json], bool]
    """Whether an object is of this kind."""
    workloads: Callable[[Json], Iterator[Workload]]
    """The engines of such an object.

    Raises:
        ImportRefused: it runs another engine, or cannot be read.
    """


def of_kind(*kinds: str, group: str) -> Callable[[Json], bool]:
    """A test for objects of these kinds, of any version of their API group."""

    def takes(document: Json) -> bool:
        return (
            document.get("kind") in kinds and str(document.get("apiVersion", "")).partition("/")[0] == group
        )

    return takes
