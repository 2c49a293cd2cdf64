"""SpeculativeModels out of the text of a file."""

from __future__ import annotations

from collections.abc import Mapping

import yaml
from pydantic import JsonValue, ValidationError

from outrider.api.complaint import complaint
from outrider.api.resource import KIND, SpeculativeModel


class ManifestRefused(ValueError):
    """A file that cannot be taken; the message names it and says what is wrong."""


def raw_models(text: str, source: str) -> list[Mapping[str, JsonValue]]:
    """Every SpeculativeModel of a text, unchecked; other objects are left out.

    Raises:
        ManifestRefused: it is not YAML.
    """
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestRefused(f"{source} is not YAML: {' '.join(str(error).split())}") from error
    return [one for one in documents if isinstance(one, dict) and one.get("kind") == KIND]


def checked(raw: Mapping[str, JsonValue], source: str) -> SpeculativeModel:
    """As at admission.

    Raises:
        ManifestRefused: admission would refuse it.
    """
    try:
        return SpeculativeModel.model_validate(raw)
    except ValidationError as error:
        raise ManifestRefused(f"{source}: {complaint(error, raw)}") from error
