"""What a plugin uses of its engine.

The objects of an engine have no types here, so a plugin calls them Any. Every attribute that is read from
such a parameter, or from what was read from it, must be expected.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine_image.testing.contract.forms import Expectation

PLAIN = frozenset(name for kind in (dict, list, set, str, tuple) for name in dir(kind))
"""Methods of Python's own containers, which vLLM's objects hold."""

TENSOR = frozenset(
    {
        *("device", "diff", "dtype", "long", "masked_fill", "new_tensor", "new_zeros", "repeat_interleave"),
        *("to", "tolist", "wait_stream"),
    }
)
"""Attributes of torch's tensors and streams."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine whose names a plugin uses.

    package: from which it imports. fields: attributes of the plugin's own objects that hold the engine's.
    """

    package: str
    fields: frozenset[str]
    expectations: Sequence[Expectation]


def uses(module: ast.Module, engine: Engine) -> Iterator[tuple[int, str]]:
    """Line and name of every import from the engine, and of every attribute of an object of it."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == engine.package:
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from attributes_of_engine(node, known_as_any(node, engine.package))
    yield from attributes_of_engine(module, {f"self.{name}" for name in engine.fields})


def known_as_any(function: ast.FunctionDef | ast.AsyncFunctionDef, package: str) -> set[str]:
    """Parameters that are Any, the engine's module, and what is assigned or looped over from them."""
    given = [*function.args.args, *function.args.kwonlyargs]
    names = {each.arg for each in given if each.annotation and ast.unparse(each.annotation) == "Any"}
    names |= {
        a.name for n in ast.walk(function) if isinstance(n, ast.Import) for a in n.names if a.name == package
    }
    grown = True
    while grown:
        found = {
            target.id
            for bound, value in bindings(function)
            if rooted(value, names)
            for target in ast.walk(bound)
            if isinstance(target, ast.Name)
        }
        grown = not found <= names
        names |= found
    return names


def bindings(function: ast.AST) -> Iterator[tuple[ast.AST, ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            pairs = zip_targets(node.targets[0], node.value)
            yield from pairs
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield node.target, node.iter


def zip_targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.AST, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def rooted(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is such a name, or was reached from one by attributes, items and calls."""
    while True:
        if ast.unparse(node) in names:
            return True
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Await(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner)):
                node = inner
            case _:
                return False


def attributes_of_engine(scope: ast.AST, names: set[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(scope):
        match node:
            case ast.Attribute(value=value, attr=name, ctx=ast.Load()) if rooted(value, names):
                yield node.lineno, name
            case ast.Call(
                func=ast.Name(id="getattr" | "wrap"), args=[value, ast.Constant(value=str(name)), *_]
            ):
                if rooted(value, names):
                    yield node.lineno, name


def unexpected(module: ast.Module, engine: Engine) -> list[str]:
    """Line and name of every use without an expectation."""
    expected = frozenset[str]().union(*(expectation.form.covers for expectation in engine.expectations))
    own = {n.name for n in ast.walk(module) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    known = expected | own | PLAIN | TENSOR
    return sorted({f"{line}: {name}" for line, name in uses(module, engine) if name not in known})
