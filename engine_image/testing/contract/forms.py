"""What can be expected of an engine's source, and how each form is verified."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from engine_image.testing.contract.source import Function, Source, attributes, parameters

Release: TypeAlias = tuple[int, ...]
"""Numbers of a version: two of vLLM, three of SGLang."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One line of the contract.

    used_by: the module of this project that breaks without it.
    since: the first version in which it is needed, where the code does without it before.
    until: the first version in which another line takes its place.
    """

    form: Form
    used_by: str
    since: Release | None = None
    until: Release | None = None

    def needed_in(self, version: Release) -> bool:
        """Whether a release has to keep it."""
        begun = self.since is None or version >= self.since
        return begun and (self.until is None or version < self.until)


def of(
    used_by: str, *forms: Form, since: Release | None = None, until: Release | None = None
) -> tuple[Expectation, ...]:
    """Several lines for one module."""
    return tuple(Expectation(form, used_by, since, until) for form in forms)


class Verdict(StrEnum):
    """How an expectation stands in one version."""

    OK = "ok"
    CHANGED = "changed"
    """It is there, in another shape."""
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict. ``detail`` says what was found instead; empty when all is well."""

    verdict: Verdict
    detail: str = ""


OK = Finding(Verdict.OK)


class Form(Protocol):
    """One kind of expectation. ``path`` is a file of the engine."""

    @property
    def path(self) -> str:
        """The file that it is about."""

    @property
    def covers(self) -> frozenset[str]:
        """The names that code may use because of it."""

    def text(self) -> str:
        """The expectation in one line; unique among all."""

    def verify(self, source: Source) -> Finding:
        """How it stands in this source."""


@dataclass(frozen=True, slots=True)
class Defines:
    """A class or function exists. ``takes``: the first parameters, in order."""

    path: str
    name: str
    takes: tuple[str, ...] | None = None

    @property
    def covers(self) -> frozenset[str]:
        """The name itself."""
        return frozenset({self.name.rpartition(".")[2]})

    def text(self) -> str:
        """``vllm/x.py: Y.z(self, a)``."""
        signature = "" if self.takes is None else f"({', '.join(self.takes)}, …)"
        return f"{self.path}: {self.name}{signature}"

    def verify(self, source: Source) -> Finding:
        """Missing without the definition, changed with other first parameters."""
        found = source.definition(self.path, self.name)
        if found is None:
            return Finding(Verdict.MISSING, f"no {self.name}")
        if self.takes is None:
            return OK
        if not isinstance(found, Function):
            return Finding(Verdict.CHANGED, "not a function")
        given = parameters(found)
        return (
            OK if given[: len(self.takes)] == self.takes else Finding(Verdict.CHANGED, f"{', '.join(given)}")
        )


@dataclass(frozen=True, slots=True)
class Holds:
    """Instances of a class, through itself or its bases, have these attributes."""

    path: str
    name: str
    attributes: tuple[str, ...]

    @property
    def covers(self) -> frozenset[str]:
        """The attributes."""
        return frozenset(self.attributes)

    def text(self) -> str:
        """``vllm/x.py: Y has a, b``."""
        return f"{self.path}: {self.name} has {', '.join(self.attributes)}"

    def verify(self, source: Source) -> Finding:
        """Missing without the class or one of the attributes."""
        classes = [definition for _, definition in source.bases(self.path, self.name)]
        if not classes:
            return Finding(Verdict.MISSING, f"no {self.name}")
        held = frozenset[str]().union(*map(attributes, classes))
        lacking = [name for name in self.attributes if name not in held]
        return Finding(Verdict.MISSING, f"no {', '.join(lacking)}") if lacking else OK


@dataclass(frozen=True, slots=True)
class Says:
    """The code of a definition contains an expression or statement; its spelling is that of `ast.unparse`."""

    path: str
    name: str
    code: str

    @property
    def covers(self) -> frozenset[str]:
        """Nothing: it is about what vLLM does, not about a name that is used."""
        return frozenset()

    def text(self) -> str:
        """``vllm/x.py: Y.z says …``, in one line."""
        return f"{self.path}: {self.name} says `{' '.join(self.code.split())}`"

    def verify(self, source: Source) -> Finding:
        """Missing without the definition, changed without the code in it."""
        found = source.definition(self.path, self.name)
        if found is None:
            return Finding(Verdict.MISSING, f"no {self.name}")
        wanted = ast.unparse(ast.parse(self.code))
        parts = (node for node in ast.walk(found) if isinstance(node, ast.expr | ast.stmt))
        if any(ast.unparse(part) == wanted for part in parts):
            return OK
        return Finding(Verdict.CHANGED, "it does not say so")


@dataclass(frozen=True, slots=True)
class Ignores:
    """A module exists, and nowhere uses a name."""

    path: str
    name: str

    @property
    def covers(self) -> frozenset[str]:
        """Nothing: it is about what vLLM does not do."""
        return frozenset()

    def text(self) -> str:
        """``vllm/x.py: nothing about y``."""
        return f"{self.path}: nothing about {self.name}"

    def verify(self, source: Source) -> Finding:
        """Missing without the module, changed where it uses the name."""
        module = source.module(self.path)
        if module is None:
            return Finding(Verdict.MISSING, f"no {self.path}")
        used = {n.attr for n in ast.walk(module) if isinstance(n, ast.Attribute)}
        used |= {n.id for n in ast.walk(module) if isinstance(n, ast.Name)}
        return Finding(Verdict.CHANGED, "it uses it") if self.name in used else OK


@dataclass(frozen=True, slots=True)
class Inherits:
    """A class derives from another and leaves these methods to it, or calls them there."""

    path: str
    name: str
    base: str
    leaves: tuple[str, ...]

    @property
    def covers(self) -> frozenset[str]:
        """Nothing beyond the class."""
        return frozenset({self.name})

    def text(self) -> str:
        """``vllm/x.py: Y(Z) leaves a, b to Z``."""
        return f"{self.path}: {self.name}({self.base}) leaves {', '.join(self.leaves)} to {self.base}"

    def verify(self, source: Source) -> Finding:
        """Changed with another base, or when it replaces a method without calling that of the base."""
        found = source.definition(self.path, self.name)
        if not isinstance(found, ast.ClassDef):
            return Finding(Verdict.MISSING, f"no {self.name}")
        bases = [ast.unparse(base) for base in found.bases]
        if self.base not in bases:
            return Finding(Verdict.CHANGED, f"derives from {', '.join(bases) or 'nothing'}")
        own = {node.name: ast.unparse(node) for node in found.body if isinstance(node, Function)}
        replaced = [name for name in self.leaves if name in own and f"super().{name}(" not in own[name]]
        return Finding(Verdict.CHANGED, f"replaces {', '.join(replaced)}") if replaced else OK


@dataclass(frozen=True, slots=True)
class Names:
    """A module contains these texts as constants: names of groups, variables, metrics, settings."""

    path: str
    texts: tuple[str, ...]

    @property
    def covers(self) -> frozenset[str]:
        """Nothing, since texts name no attribute."""
        return frozenset()

    def text(self) -> str:
        """``vllm/x.py: 'a', 'b'``."""
        return f"{self.path}: {', '.join(repr(text) for text in self.texts)}"

    def verify(self, source: Source) -> Finding:
        """Missing without the module or one of the texts."""
        module = source.module(self.path)
        if module is None:
            return Finding(Verdict.MISSING, "no such module")
        given = {node.value for node in ast.walk(module) if isinstance(node, ast.Constant)}
        lacking = [text for text in self.texts if text not in given]
        return Finding(Verdict.MISSING, f"no {', '.join(lacking)}") if lacking else OK


@dataclass(frozen=True, slots=True)
class Imports:
    """A module has a name at its top level, by whatever statement."""

    path: str
    name: str

    @property
    def covers(self) -> frozenset[str]:
        """The name."""
        return frozenset({self.name})

    def text(self) -> str:
        """``vllm/x.py: name y``."""
        return f"{self.path}: name {self.name}"

    def verify(self, source: Source) -> Finding:
        """Missing when no statement of the module binds the name."""
        module = source.module(self.path)
        nodes = [] if module is None else list(ast.walk(module))
        bound = {
            a.asname or a.name for n in nodes if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names
        }
        bound |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return OK if self.name in bound else Finding(Verdict.MISSING, f"no {self.name}")
