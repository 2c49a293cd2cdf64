"""What an engine without Outrider's launcher says of its end, in the last lines of its log. Pure."""

from __future__ import annotations

import re

from outrider.foreign.readers import LAST_WORDS

_NO_MODEL_AT = re.compile(
    # huggingface_hub, which is asked for the model where there is no folder of that path.
    r"(?:Repo id must be in the form 'repo_name' or 'namespace/repo_name'"
    # The same client, of a path of one part.
    r"|Repo id must use alphanumeric chars, [^:]{0,200} the maximum length is \d+"
    # vLLM, of a folder without a model, and of a drafter.
    r"|Invalid repository ID or local directory specified)"
    r": '(?P<path>/[^']{1,1024})'"
)


def missing_model(log: str) -> str | None:
    """The absolute path at which the engine found no model or drafter; None where it ended otherwise.

    ``log``: its end; the 2 KiB that Kubernetes keeps of it suffice.
    """
    found = _NO_MODEL_AT.search(log[-LAST_WORDS.most_bytes :])
    return None if found is None else found["path"]
