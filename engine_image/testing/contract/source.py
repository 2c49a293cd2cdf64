"""An engine's source as syntax trees, from a folder or from an archive of Python files."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Source:
    """The modules of one release.

    place: a folder that holds the package, such as site-packages, or a zip file with the same paths.
    package: its top name.
    """

    def __init__(self, place: Path, package: str = "vllm") -> None:
        self._place, self._package = place, package
        self._trees: dict[str, ast.Module | None] = {}

    def module(self, path: str) -> ast.Module | None:
        """The tree of ``vllm/v1/engine/core.py``; None when this release has no such file."""
        if path not in self._trees:
            text = self._read(path)
            self._trees[path] = None if text is None else ast.parse(text, path)
        return self._trees[path]

    def definition(self, path: str, name: str) -> Definition | None:
        """The class or function of this dotted name in a module; of several, the last one."""
        scope: ast.Module | Definition | None = self.module(path)
        for part in name.split("."):
            if scope is None:
                return None
            scope = next((d for d in reversed(list(_definitions(scope))) if d.name == part), None)
        return None if isinstance(scope, ast.Module) else scope

    def resolve(self, path: str, name: str) -> tuple[str, str] | None:
        """Where a name of a module is defined: the path and name at the end of its imports."""
        if self.definition(path, name) is not None:
            return path, name
        for node in ast.walk(self.module(path) or ast.Module([], [])):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(self._package):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        found = self.path_of(node.module)
                        return None if found is None else self.resolve(found, alias.name)
        return None

    def bases(self, path: str, name: str) -> Iterator[tuple[str, ast.ClassDef]]:
        """A class and its base classes inside the package, nearest first."""
        found = self.definition(path, name)
        if not isinstance(found, ast.ClassDef):
            return
        yield path, found
        for base in found.bases:
            place = self.resolve(path, ast.unparse(base).partition("[")[0])
            if place is not None:
                yield from self.bases(*place)

    def path_of(self, module: str) -> str | None:
        """The file of a dotted module name."""
        folder = module.replace(".", "/")
        return next((path for path in (f"{folder}.py", f"{folder}/__init__.py") if self._has(path)), None)

    def _has(self, path: str) -> bool:
        return path in self._names if self._archive else (self._place / path).is_file()

    def _read(self, path: str) -> str | None:
        if not self._has(path):
            return None
        if self._archive:
            return self._archive.read(path).decode()
        return (self._place / PurePosixPath(path)).read_text(encoding="utf-8")

    @cached_property
    def _archive(self) -> zipfile.ZipFile | None:
        return zipfile.ZipFile(self._place) if self._place.is_file() else None

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._archive.namelist()) if self._archive else frozenset()


def attributes(definition: ast.ClassDef) -> frozenset[str]:
    """What instances of a class have by its own code: fields, methods, and all that ``self.x =`` sets."""
    named: set[str] = set()
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            named.add(node.target.id)
        elif isinstance(node, ast.Assign):
            named |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, Function):
            named.add(node.name)
    for part in ast.walk(definition):
        if (
            isinstance(part, ast.Attribute)
            and isinstance(part.ctx, ast.Store)
            and isinstance(part.value, ast.Name)
            and part.value.id == "self"
        ):
            named.add(part.attr)
    return frozenset(named)


def parameters(function: Function) -> tuple[str, ...]:
    """The names of all parameters in order; ``*args`` and ``**kwargs`` with their stars."""
    given = function.args
    names = [parameter.arg for parameter in (*given.posonlyargs, *given.args)]
    if given.vararg:
        names.append(f"*{given.vararg.arg}")
    names += [parameter.arg for parameter in given.kwonlyargs]
    if given.kwarg:
        names.append(f"**{given.kwarg.arg}")
    return tuple(names)


def _definitions(scope: ast.Module | Definition) -> Iterator[Definition]:
    """The definitions of a scope, also those under ``if`` and ``try``."""
    waiting: list[ast.AST] = list(scope.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, Definition):
            yield node
        elif isinstance(node, ast.If | ast.Try):
            waiting = [*ast.iter_child_nodes(node), *waiting]
