"""Simple shell scripts as statements of words. What needs a shell to be understood is refused."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Set

from outrider.importing.findings import ImportRefused
from outrider.importing.workload import names

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_SCRIPT_OPTION = re.compile(r"-[a-z]*c[a-z]*")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(:?-[^}]*)?\}|([A-Za-z_][A-Za-z0-9_]*))")
_KUBERNETES_VARIABLE = re.compile(r"\$\([A-Z_a-z][A-Z_a-z0-9.-]*\)")
_HELD = "\x00{}\x00"
"""In place of ``$(NAME)``, which Kubernetes replaces before the shell sees it."""
_OPERATORS = ";&|<>()\n"
_ENDS = frozenset({";", "&&", "\n"})
_KEYWORDS = names("if then else fi for while until do done case esac function { } !")


def script_in(words: list[str]) -> str | None:
    """The script of ``sh -c script``; None where the words run something else.

    Raises:
        ImportRefused: a shell runs a file.
    """
    if not words or words[0].rsplit("/", 1)[-1] not in _SHELLS:
        return None
    for index, word in enumerate(words[1:], start=1):
        if _SCRIPT_OPTION.fullmatch(word) and index + 1 < len(words):
            return words[index + 1]
        if not word.startswith("-") and word not in ("errexit", "pipefail"):
            break
    raise ImportRefused(
        "the container runs a script file, which Outrider cannot read; "
        "pass its vLLM command line: outrider import -- vllm serve MODEL --flag value"
    )


def statements(script: str, values: Mapping[str, str], declared: Set[str]) -> list[list[str]]:
    """The statements of a script, each as its words.

    values: variables whose value is known. declared: further variables of the container, which Kubernetes
    replaces where they are written ``$(NAME)``.

    Raises:
        ImportRefused: the script needs a shell to be understood.
    """
    held = list[str]()

    def hold(match: re.Match[str]) -> str:
        held.append(match[0])
        return _HELD.format(len(held) - 1)

    text = _KUBERNETES_VARIABLE.sub(hold, script.replace("\\\n", " "))
    text = re.sub(r"(?m)^[ \t]*#.*$", "", text)
    if "`" in text or "$(" in text:
        raise _refused("runs a command inside another one")
    if "<<" in text:
        raise _refused("holds a here-document")
    found: list[list[str]] = [[]]
    for token in _tokens(text):
        if token.strip(" ") and set(token) <= set(_OPERATORS):
            if not set(token) <= {";", "\n"} and token.strip("\n") not in _ENDS:
                raise _refused(f"uses {token.strip()!r}")
            found.append([])
            continue
        for index, original in enumerate(held):
            token = token.replace(_HELD.format(index), original)
        found[-1].append(_with_variables(token, values, declared))
    result = [_without_comment(words) for words in found]
    for words in result:
        if words and words[0] in _KEYWORDS:
            raise _refused(f"uses {words[0]!r}")
    return [words for words in result if words]


def _tokens(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError as error:
        raise _refused("has a quote that does not end") from error


def _without_comment(words: list[str]) -> list[str]:
    return words[: words.index("#")] if "#" in words else words


def _with_variables(token: str, values: Mapping[str, str], declared: Set[str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        name, default = match[1] or match[3], match[2]
        if name in values:
            return values[name]
        if name in declared:
            return f"$({name})"
        if default is not None and "$" not in default:
            return default.lstrip(":").removeprefix("-")
        raise _refused(f"uses the variable {name}, whose value the source does not have")

    found = _VARIABLE.sub(replaced, token)
    rest = _KUBERNETES_VARIABLE.sub("", found)
    if "$" in rest and _VARIABLE.search(rest) is None and re.search(r"\$[@*#?$!0-9{]", rest):
        raise _refused("uses a variable of the shell itself")
    return found


def _refused(what: str) -> ImportRefused:
    return ImportRefused(
        f"the container's shell script {what}, and Outrider reads simple commands only; "
        "pass the vLLM command line: outrider import -- vllm serve MODEL --flag value"
    )
