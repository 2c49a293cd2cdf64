"""Simple shell scripts as statements of words. What needs a shell to be understood is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from outrider.importing.findings import ImportRefused
from outrider.importing.holders import Holder
from outrider.importing.shell_words import Operator, Unreadable, Word, assigns, tokens, with_values
from outrider.importing.workload import names

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_SCRIPT_OPTION = re.compile(r"-[a-z]*c[a-z]*")
_ENDS = frozenset({";", "&&", "\n"})
_EXPORT = "export"
_ROOM_FOR_VALUES = 65_536
"""Characters by which variables may make a script longer. A few may stand in it thousands of times."""
_KEYWORDS = names("if then else fi for while until do done case esac function { } !")


def script_in(words: list[str], holder: Holder) -> str | None:
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
    raise ImportRefused(f"{holder.name} runs a script file, which Outrider cannot read; {holder.remedy}")


def statements(
    script: str, values: Mapping[str, str], declared: Set[str], *, in_pod: bool = True
) -> Iterator[list[str]]:
    """The statements of a script, each as its words.

    values: variables whose value is known; the caller may add those that a statement sets, for the next one.
    declared: further variables of the container, which are written as ``$(NAME)``. in_pod: Kubernetes
    replaces that before a shell reads it; otherwise it runs a command.

    Raises:
        Unreadable: the script needs a shell to be understood.
    """
    room = len(script) + _ROOM_FOR_VALUES
    for statement in list(_statements(tokens(script, in_pod=in_pod))):
        words = list[str]()
        for found in _words(statement, values, declared):
            words += found
            room -= sum(map(len, found)) + len(found)
            if room < 0:
                raise Unreadable(f"grows by more than {_ROOM_FOR_VALUES} characters with its variables")
        if words and words[0] in _KEYWORDS:
            raise Unreadable(f"uses {words[0]!r}")
        if words:
            yield words


def _words(statement: Sequence[Word], values: Mapping[str, str], declared: Set[str]) -> Iterator[list[str]]:
    """What each word of a statement becomes. A value that an assignment takes is not split."""
    before_the_command = True
    for index, word in enumerate(statement):
        sets_a_variable = before_the_command and assigns(word)
        found = with_values(word, values, declared, splits=not sets_a_variable)
        before_the_command = sets_a_variable or (index == 0 and found == [_EXPORT])
        yield found


def _statements(found: Iterable[Word | Operator]) -> Iterator[list[Word]]:
    statement = list[Word]()
    for each in found:
        if isinstance(each, Operator):
            _require_end(each.text)
            yield statement
            statement = []
        else:
            statement.append(each)
    yield statement


def _require_end(operator: str) -> None:
    if "<<" in operator:
        raise Unreadable("holds a here-document")
    if not set(operator) <= {";", "\n"} and operator.strip("\n") not in _ENDS:
        raise Unreadable(f"uses {operator.strip()!r}")
