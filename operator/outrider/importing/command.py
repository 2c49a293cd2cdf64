"""The words that vLLM's parser gets, out of the command of a container."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.shell import script_in, statements

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_LAUNCHERS = frozenset(
    {"env", "exec", "python", "python3", "uv", "run", "-u", "poetry", "time", "nohup", "tini", "--"}
)
_PYTHON = re.compile(r"python3?(\.[0-9]+)?")
_SILENT = frozenset({"set", "echo", "true", ":"})
_SERVERS = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.cli.main")
_SERVER_FILE = "vllm/entrypoints/openai/api_server.py"


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """The command line of an engine."""

    words: tuple[str, ...]  # behind the program
    environment: Mapping[str, str]  # variables that the command itself sets


def engine_command(
    command: Sequence[str],
    args: Sequence[str],
    *,
    values: Mapping[str, str],
    declared: Set[str],
    findings: Findings,
) -> EngineCommand:
    """The words for vLLM's parser.

    command, args: as in a container; without a command the image's own program is taken to be vLLM.
    values: variables whose value is known; declared: further ones that the container has.

    Raises:
        ImportRefused: the command runs no vLLM server, or cannot be read.
    """
    words = [_expanded(word, values) for word in (*command, *args)]
    script = script_in([*command, *args])
    if script is None:
        found = _engine_words(words)
        if found is not None:
            return _with_launcher(found, findings)
        if command:
            raise ImportRefused(
                f"the container runs {command[0]}, and not vllm serve or vllm.entrypoints.openai.api_server; "
                "name the container that does with --container"
            )
        return EngineCommand(tuple(words[1:] if words[:1] == ["serve"] else words), {})
    return _in_script(script, values, declared, findings)


def _in_script(
    script: str, values: Mapping[str, str], declared: Set[str], findings: Findings
) -> EngineCommand:
    known, exported = dict(values), dict[str, str]()
    engines = list[EngineCommand]()
    for words in _known_as_it_goes(script, known, declared, exported):
        found = _engine_words(words)
        if found is not None:
            engines.append(_with_launcher(found, findings))
        elif words[0] not in _SILENT:
            findings.dropped(
                f"command {words[0].rsplit('/', 1)[-1]}",
                "Outrider starts vLLM without a shell; build it into the image, or use an init container in "
                "spec.podTemplate",
            )
    if len(engines) != 1:
        count = "no vLLM server" if not engines else f"{len(engines)} vLLM servers"
        raise ImportRefused(f"the shell script of the container runs {count}; pass the command line of one")
    (engine,) = engines
    return EngineCommand(engine.words, {**exported, **engine.environment})


def _known_as_it_goes(
    script: str, known: dict[str, str], declared: Set[str], exported: dict[str, str]
) -> list[list[str]]:
    """Statements that run something. Assignments go into ``known`` and ``exported``."""
    found = list[list[str]]()
    # Names that the script sets are known behind the place where it sets them.
    named = {match[1] for match in re.finditer(r"(?m)(?:^|[\s;&])([A-Za-z_][A-Za-z0-9_]*)=", script)}
    for words in statements(script, known, declared | named):
        words = [_expanded(word, known) for word in words]
        rest = words[1:] if words[0] == "export" else words
        pairs = [_ASSIGNMENT.fullmatch(word) for word in rest]
        if rest and all(pairs):
            values = {pair[1]: pair[2] for pair in pairs if pair is not None}
            known |= values
            exported |= values
        else:
            found.append(words)
    return found


def _engine_words(words: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """What stands before vLLM's program, and what is for its parser; None where no word is that program.

    Raises:
        ImportRefused: another server, of vLLM or not.
    """
    for index, word in enumerate(words):
        after = words[index + 1] if index + 1 < len(words) else ""
        if word.rsplit("/", 1)[-1] == "vllm" and after == "serve":
            return list(words[:index]), list(words[index + 2 :])
        if word == "-m" and after == _SERVERS[0]:
            return list(words[:index]), list(words[index + 2 :])
        if word == "-m" and after == _SERVERS[1] and words[index + 2 : index + 3] == ["serve"]:
            return list(words[:index]), list(words[index + 3 :])
        if word.endswith(_SERVER_FILE):
            return list(words[:index]), list(words[index + 1 :])
        if word == "-m" and after == "vllm.entrypoints.api_server":
            raise ImportRefused(
                "the container runs vllm.entrypoints.api_server, vLLM's old demonstration server without the "
                "OpenAI API; serve with vllm serve first"
            )
        if word == "-m" and after.startswith("sglang"):
            raise ImportRefused("the container runs SGLang; Outrider runs vLLM")
    return None


def _with_launcher(found: tuple[list[str], list[str]], findings: Findings) -> EngineCommand:
    before, words = found
    variables = dict[str, str]()
    for word in before:
        pair = _ASSIGNMENT.fullmatch(word)
        program = word.rsplit("/", 1)[-1]
        if pair is not None:
            variables[pair[1]] = pair[2]
        elif program not in _LAUNCHERS and _PYTHON.fullmatch(program) is None:
            findings.dropped(f"launcher {program}", "Outrider starts vLLM itself; leave the launcher out")
    return EngineCommand(tuple(words), variables)


def _expanded(word: str, values: Mapping[str, str]) -> str:
    """With ``$(NAME)`` replaced where the value is known, as Kubernetes does."""
    return _VARIABLE.sub(lambda match: values.get(match[1], match[0]), word)
