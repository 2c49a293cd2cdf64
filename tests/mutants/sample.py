"""Which mutants of a file are tried: the same ones for the same seed."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from parso.tree import NodeOrLeaf

from tests.mutants.operators import operators


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one file: the n-th place where an operator can change something."""

    line: int
    column: int
    operator: str
    occurrence: int


def mutants(code: str) -> Iterator[Mutant]:
    """All that make sense."""
    nodes = list(ast_nodes(parso.parse(code)))
    for name, operator in operators().items():
        places = ((node, start) for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (node, (line, column)) in enumerate(places):
            if not _is_idle(node, name):
                yield Mutant(line, column, name, occurrence)


def sample(code: str, count: int, seed: str) -> list[Mutant]:
    """At most so many, at most one per place: else a single comparison would have eleven."""
    by_place = defaultdict[tuple[int, int], list[Mutant]](list)
    for mutant in sorted(mutants(code)):
        by_place[mutant.line, mutant.column].append(mutant)
    random = Random(seed)
    places = random.sample(sorted(by_place), len(by_place))
    chosen = (random.choice(by_place[place]) for place in places)
    return sorted(islice((mutant for mutant in chosen if _is_python(mutant, code)), count))


def _is_python(mutant: Mutant, code: str) -> bool:
    """The stars of a dict display are taken for a power."""
    changed = mutate_code(code, operators()[mutant.operator], mutant.occurrence)
    try:
        ast.parse(changed or "")
    except SyntaxError:
        return False
    return changed is not None


def _is_idle(node: NodeOrLeaf, operator: str) -> bool:
    """The words of a message, how a class, its methods or parameters are made: no behaviour hangs on them."""
    if node.parent is not None and node.parent.type in ("parameters", "lambdef"):  # a bare star
        return True
    if node.search_ancestor("fstring") is not None:
        return True
    statement = node.search_ancestor("expr_stmt")
    if statement is not None and statement.get_code().strip().startswith("model_config"):
        return True
    decorator = node if node.type == "decorator" else node.search_ancestor("decorator")
    if decorator is None:
        return False
    return (
        operator != "RemoveDecorator" or re.search("dataclass|classmethod", decorator.get_code()) is not None
    )
