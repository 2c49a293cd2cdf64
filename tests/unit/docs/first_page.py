"""The commands of the first page, and the values that they give to the chart."""

from __future__ import annotations

from tests.unit.docs.pages import blocks
from tests.unit.docs.shell import commands

PAGE = "docs/README.md"
WORDS = [words for block in blocks(PAGE) for words in commands(block)]


def values() -> dict[str, str]:
    """What `helm install` is given."""
    (helm,) = (words for words in WORDS if words[0] == "helm")
    given = (helm[index + 1] for index, word in enumerate(helm) if word == "--set")
    return dict(each.split("=", 1) for each in given)


def engine_images() -> dict[str, str]:
    prefix = "engineImages."
    return {
        key.removeprefix(prefix).replace("\\.", "."): image
        for key, image in values().items()
        if key.startswith(prefix)
    }
