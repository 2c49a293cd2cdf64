"""What an engine without Outrider's launcher says of its end, in the last lines of its log. Pure."""

from __future__ import annotations

import re

_NO_MODEL_AT = re.compile(
    # huggingface_hub, which is asked for the model where there is no folder of that path.
    r"(?:Repo id must be in the form 'repo_name' or 'namespace/repo_name'"
    # The same client, of a path of one part.
    r"|Repo id must use alphanumeric chars, [^:]* the maximum length is \d+"
    # vLLM, of a folder without a model, and of a drafter.
    r"|Invalid repository ID or local directory specified)"
    r": '(?P<path>/[^']+)'"
)


def missing_model(log: str) -> str | None:
    """The absolute path at which the engine found no model or drafter; None where it ended otherwise.

    ``log``: its end; the 2 KiB that Kubernetes keeps of it suffice.
    """
    found = _NO_MODEL_AT.search(log)
    return None if found is None else found["path"]
