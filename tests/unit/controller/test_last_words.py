"""What the operator says of engines that ended, from ends that were kept from real vLLM.

`tests.contract.last_words` captured them: vLLM 0.32.0 on the stand-in for a GPU.
"""

from __future__ import annotations

import pytest

from tests.contract.last_words import FAULTS, FOLDER, Ended, stored, what_outrider_says

NO_PLUGIN = "Engine core initialization failed. See root cause above."
SAID = {
    "out-of-memory-at-the-start": "exit code 1: torch.OutOfMemoryError: CUDA out of memory.",
    "no-memory-for-the-cache": "exit code 1: ValueError: No available memory for the cache blocks.",
    "cache-too-small": "ValueError: To serve at least one request with the model's max seq len (512)",
    "out-of-memory-in-a-step": "exit code 0: torch.OutOfMemoryError: CUDA out of memory.",
    "crash": "exit code 0: RuntimeError: a drafter failed",
    "core-died": "exit code 0: the engine core ended without a message",
    "missing-model": "ModelNotFound: Pod m-1: the model /models/nowhere does not exist",
    "missing-model-stock": "ModelNotFound: Pod m-1: the engine found no model at /models/nowhere",
    "out-of-memory-stock": f"exit code 1: RuntimeError: {NO_PLUGIN}",
}


@pytest.mark.parametrize("name", SAID)
def test_the_cause_of_an_end_is_told(name: str) -> None:
    said = what_outrider_says(stored(name))
    assert SAID[name] in said
    assert said.startswith("ModelNotFound: " if name.startswith("missing-model") else "EngineCrashing: ")


def test_every_fault_that_ends_an_engine_was_kept() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == set(FAULTS) == set(SAID)


REFUSED = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig
  Value error, Model Runner V2 requires Triton. [type=value_error, input_value={}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""


def test_of_a_refused_configuration_the_cause_is_named_and_not_pydantics_manual() -> None:
    assert "exit code 1: Model Runner V2 requires Triton. " in what_outrider_says(Ended(1, REFUSED))


def test_a_cause_that_is_known_comes_with_what_to_change() -> None:
    assert what_outrider_says(Ended(1, REFUSED)).endswith(
        "Outrider starts vLLM on the V2 runner, because spec.engine.modelRunner is V2, and the image has no "
        "Triton. To start it on V1, set spec.engine.modelRunner: Auto."
    )
    out_of_memory = what_outrider_says(stored("out-of-memory-in-a-step"))
    assert "lower spec.engine.args.gpu-memory-utilization" in out_of_memory


def test_a_long_cause_leaves_room_for_what_to_change() -> None:
    said = what_outrider_says(Ended(1, f"torch.OutOfMemoryError: CUDA out of memory. {'Tried ' * 200}"))
    assert said.endswith("name fewer spec.speculation.candidates.")
