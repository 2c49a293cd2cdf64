"""The commands of the first page, and the values that they give to the chart."""

from __future__ import annotations

from outrider.controller.leader import plan_settings
from outrider.controller.settings import Settings
from outrider.plan import PlanSettings
from tests.unit.docs.pages import blocks
from tests.unit.docs.shell import commands

PAGE = "docs/README.md"
WORDS = [words for block in blocks(PAGE) for words in commands(block)]


def values() -> dict[str, str]:
    """What `helm install` is given."""
    (helm,) = (words for words in WORDS if words[0] == "helm")
    given = (helm[index + 1] for index, word in enumerate(helm) if word == "--set")
    return dict(each.split("=", 1) for each in given)


def settings() -> PlanSettings:
    """The operator's settings for all models, from these values."""
    return plan_settings(Settings(plugin_image=values()["pluginImage"]))
