"""How a pod of vLLM ends: before SIGTERM, how long it may take, and what its log says of the cause."""

from __future__ import annotations

import re
from collections.abc import Mapping

from outrider.api.json_object import Json
from outrider.foreign.readers import LAST_WORDS
from outrider.runtimes import draining
from outrider.runtimes.engine_launch import EngineLaunch
from outrider.runtimes.vllm.limits import shutdown_timeout

_END_SECONDS = 10
"""What an engine takes to end once its requests have."""


def pre_stop(launch: EngineLaunch) -> Json:
    """What comes before SIGTERM, at which vLLM stops taking requests at once."""
    return draining.pre_stop(launch, request_seconds=shutdown_timeout(launch.spec.engine.args))


def seconds_to_end(launch: EngineLaunch) -> int:
    """Seconds from the start of `pre_stop` to SIGKILL."""
    return draining.seconds_to_end(
        launch, request_seconds=shutdown_timeout(launch.spec.engine.args), end_seconds=_END_SECONDS
    )


_NO_MODEL_AT = re.compile(
    # huggingface_hub, which is asked for the model where there is no folder of that path.
    r"(?:Repo id must be in the form 'repo_name' or 'namespace/repo_name'"
    # The same client, of a path of one part.
    r"|Repo id must use alphanumeric chars, [^:]{0,200} the maximum length is \d+"
    # vLLM, of a folder without a model, and of a drafter.
    r"|Invalid repository ID or local directory specified)"
    r": '(?P<path>/[^']{1,1024})'"
)


_REMEDIES: Mapping[str, str] = {
    # `VllmConfig._validate_v2_model_runner`. The operator does not know what an image has.
    "Model Runner V2 requires Triton": (
        "Outrider starts vLLM on the V2 runner, because spec.engine.modelRunner is V2, and the image has no "
        "Triton. To start it on V1, set spec.engine.modelRunner: Auto"
    ),
    "CUDA out of memory": (
        "To leave more memory, lower spec.engine.args.gpu-memory-utilization or name fewer "
        "spec.speculation.candidates"
    ),
}
"""A part of the last line -> what to change. vLLM's other sentences have a remedy, or need the log."""


def remedy(cause: str) -> str | None:
    """What Outrider did and what to change after an end with this line; None where unknown."""
    return next((change for words, change in _REMEDIES.items() if words in cause), None)


def missing_model(log: str) -> str | None:
    """The absolute path at which the engine found no model or drafter; None where it ended otherwise.

    ``log``: its end; the 2 KiB that Kubernetes keeps of it suffice.
    """
    found = _NO_MODEL_AT.search(log[-LAST_WORDS.most_bytes :])
    return None if found is None else found["path"]
