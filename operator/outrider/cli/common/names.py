"""Names that options take: what Kubernetes would refuse later is refused before anything is printed."""

from __future__ import annotations

import re

from outrider.api.quantity import MAX_NAME_LENGTH, MODEL_NAME_PATTERN
from outrider.cli.common.output import CommandError

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_REPOSITORY = r"[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5})?(/[A-Za-z0-9][A-Za-z0-9._-]*)*"
_IMAGE = rf"{_REPOSITORY}(:[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?(@sha256:[0-9a-f]{{64}})?"


def check_namespace(text: str) -> None:
    """Check the value of --namespace.

    Raises:
        CommandError: no namespace can have that name.
    """
    _check("--namespace", text, _LABEL, "at most 63 lower-case letters, digits and '-'")


def check_image(option: str, text: str) -> None:
    """Check the reference of an image, the value of ``option``.

    Raises:
        CommandError: no container runtime could read it.
    """
    _check(option, text, _IMAGE, "an image such as ghcr.io/organisation/image:1.0.0")


def check_model_name(text: str) -> None:
    """Check the value of --name, the name of a SpeculativeModel.

    Raises:
        CommandError: no SpeculativeModel can have that name.
    """
    words = f"at most {MAX_NAME_LENGTH} lower-case letters, digits and '-', with a letter first"
    _check("--name", text, rf"(?=.{{1,{MAX_NAME_LENGTH}}}$){MODEL_NAME_PATTERN}", words)


def _check(option: str, text: str, pattern: str, wanted: str) -> None:
    if re.fullmatch(pattern, text) is None:
        raise CommandError(f"{option} is {text or 'empty'}; write {wanted}")
