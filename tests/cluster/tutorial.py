"""The commands of the tutorial's page, or of another page with numbered steps, and their execution."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from tests.ports import free_port
from tests.unit.docs.pages import text_of

NAME, PORT = "tiny", 8080
"""Of the model, and where it is asked."""

_PAGE = text_of("docs/guide/tutorial.md")
_END = "end of step"


def what_is_needed() -> str:
    """What is typed on a fresh Debian before anything else."""
    return _typed(_PAGE.split("\n## What you need\n")[1].split("\n## ")[0])


def listed() -> list[str]:
    """The packages that the page lists."""
    (names,) = re.findall(r"^apt-get install (.+)$", what_is_needed(), re.M)
    return str(names).split()


def steps() -> dict[str, str]:
    """What is typed by hand: the set-up, by the name 0, and in each numbered step."""
    by_hand = _PAGE.split("\n## By hand\n")[1]
    return steps_of("### 0. Set-up\n" + by_hand, heading="###")


def steps_of(page: str, *, heading: str) -> dict[str, str]:
    """What is typed in each numbered section of a page. heading: its mark, such as ``##``."""
    parts = re.split(rf"^{heading} (?:(\d)\. )?.*$", page, flags=re.M)[1:]
    return {number: _typed(text) for number, text in zip(parts[::2], parts[1::2], strict=True) if number}


def _typed(text: str) -> str:
    return "".join(re.findall(r"^```sh\n(.*?)^```", text, flags=re.M | re.S))


def a_port(wanted: int) -> int:
    """The port of a page, or a free one."""
    with socket.socket() as there:
        try:
            there.bind(("127.0.0.1", wanted))
        except OSError:
            return free_port()
    return wanted


@contextmanager
def a_shell(repository: Path, **environment: str) -> Iterator[Popen[str]]:
    """A shell in a repository that ends with the first command that fails, and with it what it started."""
    with subprocess.Popen(
        [shutil.which("bash") or "bash", "-e"],
        cwd=repository,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            assert shell.stdin is not None
            # A port-forward would keep the pipe of the output open.
            shell.stdin.write("trap 'kill $(jobs -p)' EXIT\n")
            yield shell
        finally:
            os.killpg(shell.pid, 15)


@dataclass(frozen=True)
class Typist:
    """At a shell that lives as long as the tutorial. instead: what is typed in place of words of the page.

    page: what is typed in each step.
    """

    shell: Popen[str]
    instead: Mapping[str, str] = field(default_factory=dict)
    page: Mapping[str, str] = field(default_factory=steps)

    def takes(self, number: str) -> str:
        """A step, and what it prints. Fails where a command of it does."""
        text = self.page[number]
        for words, others in self.instead.items():
            text = text.replace(words, others)
        return self.types(text)

    def types(self, text: str) -> str:
        """What these lines print.

        Raises:
            AssertionError: a command failed, and the shell with it. The message is what was printed.
        """
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(f"{text}\necho; echo '{_END}'\n")
        self.shell.stdin.flush()
        lines: list[str] = []
        for line in self.shell.stdout:
            if line == f"{_END}\n":
                return "".join(lines)
            lines.append(line)
        raise AssertionError(f"it ended early: {text}\n{''.join(lines)}")
