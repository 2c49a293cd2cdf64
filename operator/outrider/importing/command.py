"""The words that an engine's parser gets, out of the command of a container."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from outrider.api.engines import RuntimeKind
from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.holders import CONTAINER, Holder
from outrider.importing.shell import script_in, statements
from outrider.importing.shell_words import Unreadable
from outrider.importing.variables import expanded

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_LAUNCHERS = frozenset(
    {"env", "exec", "python", "python3", "uv", "run", "-u", "poetry", "time", "nohup", "tini", "--"}
)
_PYTHON = re.compile(r"python3?(\.[0-9]+)?")
_SILENT = frozenset({"set", "echo", "true", ":"})
_PROGRAMS = {"vllm": RuntimeKind.VLLM, "sglang": RuntimeKind.SGLANG}
"""Programs whose subcommand ``serve`` starts an engine."""
_SERVERS = {
    "vllm.entrypoints.openai.api_server": (RuntimeKind.VLLM, False),
    "vllm.entrypoints.cli.main": (RuntimeKind.VLLM, True),
    "sglang.launch_server": (RuntimeKind.SGLANG, False),
    "sglang.cli.main": (RuntimeKind.SGLANG, True),
}
"""Modules that start an engine, and whether they need the subcommand ``serve``."""
_SERVER_FILES = {
    "vllm/entrypoints/openai/api_server.py": RuntimeKind.VLLM,
    "sglang/launch_server.py": RuntimeKind.SGLANG,
}


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """The command line of an engine."""

    words: tuple[str, ...]  # behind the program
    environment: Mapping[str, str]  # variables that the command itself sets
    kind: RuntimeKind | None = None  # None: the program of the image, which the command does not name


def engine_command(
    command: Sequence[str],
    args: Sequence[str],
    *,
    values: Mapping[str, str],
    declared: Set[str],
    findings: Findings,
    holder: Holder = CONTAINER,
) -> EngineCommand:
    """The words for the engine's parser.

    command, args: as in a container; without a command the image's own program is taken to be the engine.
    values: variables whose value is known; declared: further ones that the container has.

    Raises:
        ImportRefused: the command runs no server that Outrider reads, or cannot be read.
    """
    words = [expanded(word, values) if holder.in_pod else word for word in (*command, *args)]
    script = script_in(words, holder)
    if script is not None:
        return _in_script(script, values, declared, findings, holder)
    found = _engine_words(words, holder)
    if found is not None:
        return _with_launcher(found, findings)
    if command:
        raise ImportRefused(
            f"{holder.name} runs {command[0]}, and not vllm serve, vllm.entrypoints.openai.api_server, "
            f"sglang serve or sglang.launch_server; {holder.other_program}"
        )
    return EngineCommand(tuple(words[1:] if words[:1] == ["serve"] else words), {})


def _in_script(
    script: str, values: Mapping[str, str], declared: Set[str], findings: Findings, holder: Holder
) -> EngineCommand:
    known, exported = dict(values), dict[str, str]()
    engines = list[EngineCommand]()
    try:
        found_words = statements(script, known, declared, in_pod=holder.in_pod)
        commands = list(_commands(found_words, known, exported))
    except Unreadable as error:
        raise ImportRefused(
            f"{holder.script} {error}, and Outrider reads simple commands only; {holder.remedy}"
        ) from error
    for words in commands:
        found = _engine_words(words, holder)
        if found is not None:
            engines.append(_with_launcher(found, findings))
        elif words[0] not in _SILENT:
            findings.dropped(
                f"command {words[0].rsplit('/', 1)[-1]}",
                "Outrider starts the engine without it; build it into the image, or use an init container in "
                "spec.podTemplate",
            )
    if len(engines) != 1:
        count = "no engine" if not engines else f"{len(engines)} engines"
        raise ImportRefused(f"{holder.script} runs {count}; pass the command line of one")
    (engine,) = engines
    return EngineCommand(engine.words, {**exported, **engine.environment}, engine.kind)


def _commands(
    found: Iterable[list[str]], known: dict[str, str], exported: dict[str, str]
) -> Iterator[list[str]]:
    """Statements that run something. Assignments go into ``known``, for what follows, and ``exported``."""
    for words in found:
        rest = words[1:] if words[0] == "export" else words
        pairs = [_ASSIGNMENT.fullmatch(word) for word in rest]
        if rest and all(pairs):
            values = {pair[1]: pair[2] for pair in pairs if pair is not None}
            known |= values
            exported |= values
        else:
            yield words


_Found = tuple[list[str], list[str], RuntimeKind]


def _engine_words(words: Sequence[str], holder: Holder) -> _Found | None:
    """What stands before an engine's program, and what is for its parser; None where no word is a program.

    Raises:
        ImportRefused: another server of an engine.
    """
    for index, word in enumerate(words):
        after = words[index + 1] if index + 1 < len(words) else ""
        behind = _words_of_program(word, after, words[index + 2 : index + 3] == ["serve"])
        if behind is not None:
            kind, taken = behind
            return list(words[:index]), list(words[index + taken :]), kind
        if word == "-m" and after == "vllm.entrypoints.api_server":
            raise ImportRefused(
                f"{holder.name} runs vllm.entrypoints.api_server, vLLM's old demonstration server without "
                "the OpenAI API; serve with vllm serve first"
            )
    return None


def _words_of_program(word: str, after: str, serve: bool) -> tuple[RuntimeKind, int] | None:
    """The engine whose program begins with these words, and how many words that are."""
    name = word.rsplit("/", 1)[-1]
    if name in _PROGRAMS and after == "serve":
        return _PROGRAMS[name], 2
    if word == "-m" and after in _SERVERS:
        kind, subcommand = _SERVERS[after]
        return (kind, 3 if subcommand else 2) if serve or not subcommand else None
    return next(((kind, 1) for file, kind in _SERVER_FILES.items() if word.endswith(file)), None)


def _with_launcher(found: _Found, findings: Findings) -> EngineCommand:
    before, words, kind = found
    variables = dict[str, str]()
    for word in before:
        pair = _ASSIGNMENT.fullmatch(word)
        program = word.rsplit("/", 1)[-1]
        if pair is not None:
            variables[pair[1]] = pair[2]
        elif program not in _LAUNCHERS and _PYTHON.fullmatch(program) is None:
            findings.dropped(
                f"launcher {program}", "Outrider starts the engine itself; leave the launcher out"
            )
    return EngineCommand(tuple(words), variables, kind)
