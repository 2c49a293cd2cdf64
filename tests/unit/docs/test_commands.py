"""Every command line of the pages is one that the programs know, or is marked as not tested.

A block is marked by a line before it: ``<!-- not tested: why -->``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperCommand

from outrider.api import annotations  # type: ignore[assignment]
from outrider.api.conditions import ConditionType
from outrider.cli.main import app
from tests.unit.docs.pages import PLACES, ROOT, Block, blocks, text_of
from tests.unit.docs.shell import CHECKED, TAKEN_AS_THEY_ARE, commands, is_shell

PROGRAM: Any = typer.main.get_command(app)
USAGE_ERROR = typer.BadParameter.__mro__[1]
BLOCKS = [block for place in PLACES for block in blocks(place) if is_shell(block) and not block.untested]
ANNOTATIONS = {value for value in vars(annotations).values() if isinstance(value, str) and "/" in value}
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.M))
VALUES = yaml.safe_load((ROOT / "charts" / "outrider" / "values.yaml").read_text())


def subcommand(name: str) -> TyperCommand:
    found = getattr(PROGRAM, "commands", {}).get(name)
    assert found is not None, f"outrider has no command {name}"
    command: TyperCommand = found
    return command


def options(command: TyperCommand) -> set[str]:
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


def check_outrider(words: Sequence[str]) -> None:
    if words[1].startswith("-"):
        assert words[1] in options(PROGRAM)
        return
    subcommand(words[1]).make_context(words[1], list(words[2:]))


def check_kubectl(words: Sequence[str]) -> None:
    if words[1] == "speculative":
        check_outrider(words[1:])
        return
    for flag, value in itertools.pairwise(words):
        if flag in ("-f", "--filename") and value != "-":
            assert (ROOT / value).exists(), f"there is no {value}"
    for word in words:
        if word.startswith("outrider.dev/"):
            name = re.split(r"[=]", word)[0].removesuffix("-")
            assert name in ANNOTATIONS or words[1] != "annotate", f"there is no annotation {name}"
        if word.startswith("--for=condition="):
            assert word.rsplit("=", 1)[1] in {str(kind) for kind in ConditionType}


def check_helm(words: Sequence[str]) -> None:
    if words[1] == "uninstall":
        return
    if any(re.fullmatch(r"(?!charts/)[a-z-]+/[a-z-]+", word) for word in words):
        return  # a chart of a repository elsewhere
    assert any((ROOT / word / "Chart.yaml").exists() for word in words), "there is no such chart"
    for flag, value in itertools.pairwise(words):
        if flag in ("--set", "--set-string"):
            check_value(value.split("=", 1)[0])


def check_value(key: str) -> None:
    found = VALUES
    for part in re.split(r"(?<!\\)\.", key):
        if found == {}:
            return  # a map of the user's
        assert part in found, f"the chart has no value {key}"
        found = found[part]


def check_make(words: Sequence[str]) -> None:
    targets = [word for word in words[1:] if "=" not in word]
    assert TARGETS.issuperset(targets), f"the Makefile lacks one of {targets}"


def check_python(words: Sequence[str]) -> None:
    if words[1] == "-m":
        path = ROOT / words[2].replace(".", "/")
        installed = words[2].startswith("outrider_engine.")
        assert installed or path.with_suffix(".py").exists() or (path / "__main__.py").exists(), words[2]
    else:
        assert (ROOT / words[1]).exists()


def check_uv(words: Sequence[str]) -> None:
    assert all((ROOT / word).is_dir() for word in words if word.startswith("./"))


CHECKS = {
    "outrider": check_outrider,
    "kubectl": check_kubectl,
    "helm": check_helm,
    "make": check_make,
    "python3": check_python,
    "python": check_python,
    "uv": check_uv,
}


def name_of(block: Block) -> str:
    return f"{block.place}:{block.line}"


def test_the_pages_have_commands() -> None:
    assert len(BLOCKS) > 40
    assert CHECKS.keys() == CHECKED


@pytest.mark.parametrize("block", BLOCKS, ids=name_of)
def test_every_command_of_a_block_is_known(block: Block) -> None:
    for words in commands(block):
        program = Path(words[0]).name
        assert program in CHECKED | TAKEN_AS_THEY_ARE, f"check {program}, or mark the block as not tested"
        if program in CHECKS and len(words) > 1:
            CHECKS[program](words)


def test_no_command_needs_gnus_date() -> None:
    """macOS has another `date`, which does not know ``-d '+2 hours'``."""
    found = [name_of(block) for block in BLOCKS if re.search(r"date[^\n]* -d ", "\n".join(block.lines))]
    assert found == []


def mentions() -> Iterator[tuple[str, str]]:
    for place in PLACES:
        prose = re.sub(r"^```.*?^```", "", text_of(place), flags=re.M | re.S)
        for mention in re.findall(r"`outrider ([^`]+)`", prose):
            yield place, mention


@pytest.mark.parametrize(("place", "mention"), sorted(set(mentions())))
def test_every_command_in_a_sentence_is_there_with_its_options(place: str, mention: str) -> None:
    words = mention.partition(" -- ")[0].split()  # Behind it stands a command line of another program.
    if not re.fullmatch(r"[a-z]+", words[0].rstrip(",")):
        return
    known = options(subcommand(words[0].rstrip(",")))
    used = {word.split("=")[0].rstrip(",") for word in words[1:] if word.startswith("-") and word != "-"}
    assert used <= known, f"{place}: outrider {words[0]} has no {used - known}"


@pytest.mark.parametrize(
    "line",
    [
        "outrider plam x",
        "outrider plan --gpuu H100",
        "outrider bench",
        "outrider bench m --rounds many",
        "kubectl apply -f examples/none.yaml",
        "kubectl annotate specmodel m outrider.dev/pausd=true",
        "kubectl wait specmodel/m --for=condition=Redy",
        "helm install outrider charts/outrider --set metrics.sauce=PodScrape",
        "helm install outrider charts/none",
        "make everything",
        "python3 -m engine_image.bild gpu",
        "frobnicate now",
    ],
)
def test_a_mistake_in_a_page_is_found(line: str) -> None:
    block = Block("page", 1, "sh", (line,), untested=False)
    with pytest.raises((AssertionError, USAGE_ERROR)):
        test_every_command_of_a_block_is_known(block)
