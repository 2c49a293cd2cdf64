"""Names that options take: what Kubernetes would refuse later is refused before anything is printed."""

from __future__ import annotations

import re

from outrider.api.quantity import DNS_LABEL_PATTERN, MAX_NAME_LENGTH, MODEL_NAME_PATTERN
from outrider.cli.common.output import CommandError

_MAX_NAMESPACE = 63
_REPOSITORY = r"[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5})?(/[A-Za-z0-9][A-Za-z0-9._-]*)*"
_IMAGE = rf"{_REPOSITORY}(:[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?(@sha256:[0-9a-f]{{64}})?"


def check_namespace(text: str) -> None:
    """Check the value of --namespace.

    Raises:
        CommandError: no namespace can have that name.
    """
    words = f"at most {_MAX_NAMESPACE} lower-case letters, digits and '-'"
    _check("--namespace", text, DNS_LABEL_PATTERN, words, most=_MAX_NAMESPACE)


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
    _check("--name", text, MODEL_NAME_PATTERN, words, most=MAX_NAME_LENGTH)


def _check(option: str, text: str, pattern: str, wanted: str, *, most: int | None = None) -> None:
    if re.fullmatch(pattern, text) is None or (most is not None and len(text) > most):
        raise CommandError(f"{option} is {text or 'empty'}; write {wanted}")
