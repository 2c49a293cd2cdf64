"""Changes that Cosmic Ray does not know: a check that never holds, and a call that is not made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import parso
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.operators.provider import OperatorProvider
from parso.tree import BaseNode, NodeOrLeaf

Span = tuple[tuple[int, int], tuple[int, int]]


class NeverHolds(Operator):
    """The condition of an `if` or an `elif` becomes False."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Span]:
        """Each condition."""
        for condition in _conditions(node):
            yield condition.start_pos, condition.end_pos

    def mutate(self, node: BaseNode, index: int) -> BaseNode:
        """Replace one of them."""
        condition = list(_conditions(node))[index]
        node.children[node.children.index(condition)] = parso.parse(" False")
        return node

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """What it makes of what."""
        return (
            Example("if a < b:\n    return\n", "if False:\n    return\n"),
            Example("if a:\n    b\nelif c:\n    d\n", "if a:\n    b\nelif False:\n    d\n", occurrence=1),
        )


class NotCalled(Operator):
    """A call without use of its answer is left out."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Span]:
        """The statement."""
        if isinstance(node, BaseNode) and node.type == "simple_stmt" and _is_call(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: BaseNode, index: int) -> BaseNode:  # noqa: ARG002 - as `Operator` has it
        """Replace it."""
        node.children[0] = parso.parse(node.children[0].get_first_leaf().prefix + "pass")
        return node

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """What it makes of what."""
        return (
            Example("if a:\n    f(b)\n", "if a:\n    pass\n"),
            Example("async def f():\n    await g.h()\n", "async def f():\n    pass\n"),
        )


OWN: Mapping[str, Operator] = {"NeverHolds": NeverHolds(), "NotCalled": NotCalled()}


_ORDER = "(Eq|NotEq|Lt|LtE|Gt|GtE)"
_IDLE = re.compile(f"_BitOr_|_(Is|IsNot)_{_ORDER}$|_{_ORDER}_(Is|IsNot)$")
"""A `|` nearly always stands in an annotation, which is never evaluated. Between identity and order: None and
enums are what they equal, and have no order."""


def operators() -> dict[str, Operator]:
    """By name, without those that need names of variables and those that show nothing about the tests."""
    every = OperatorProvider()
    known = {name: every[name] for name in every if not _IDLE.search(name)}
    return {**{name: operator() for name, operator in known.items() if not operator.arguments()}, **OWN}


def _conditions(node: NodeOrLeaf) -> Iterator[NodeOrLeaf]:
    if node.type != "if_stmt":
        return
    assert isinstance(node, BaseNode)
    for keyword, condition in zip(node.children, node.children[1:], strict=False):
        if keyword.type == "keyword" and keyword.value in ("if", "elif"):
            yield condition


def _is_call(node: NodeOrLeaf) -> bool:
    return (
        isinstance(node, BaseNode)
        and node.type == "atom_expr"
        and (node.children[-1].type == "trailer" and node.children[-1].children[0].value == "(")
    )
