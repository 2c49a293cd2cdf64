"""The cause in the end of an engine's log. The texts are vLLM 0.32.0's."""

from __future__ import annotations

import pytest

from outrider.runtimes.vllm.shutdown import missing_model

NO_FOLDER = """\
  File "/site-packages/huggingface_hub/utils/_validators.py", line 133, in validate_repo_id
    raise HFValidationError(
huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or \
'namespace/repo_name': '/models/tiny/nope'. Use `repo_type` argument if needed.
"""
NO_FOLDER_ONLINE = """\
    raise OSError(f"{e}") from e
OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/tiny/nope'. \
Use `repo_type` argument if needed.
"""
NO_FOLDER_OF_ONE_PART = """\
    raise HFValidationError(
huggingface_hub.errors.HFValidationError: Repo id must use alphanumeric chars, '-', '_' or '.'. The name \
cannot start or end with '-' or '.' and the maximum length is 96: '/nope'.
"""
NO_MODEL_IN_IT = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, Invalid repository ID or local directory specified: '/models/tiny/nope'.
Please verify the following requirements:
1. Provide a valid Hugging Face repository ID.
2. Specify a local directory that contains a recognized configuration file.
   - For Hugging Face models: ensure the presence of a 'config.json'.
   - For Mistral models: ensure the presence of a 'params.json'.
 [type=value_error, input_value=ArgsKwargs((), {'model': ...nderer_num_workers': 1}), input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
NO_DRAFTER = NO_MODEL_IN_IT.replace("ModelConfig", "SpeculativeConfig")
NOT_ON_THE_HUB = NO_MODEL_IN_IT.replace("/models/tiny/nope", "org/nope")


@pytest.mark.parametrize("log", [NO_FOLDER, NO_FOLDER_ONLINE, NO_MODEL_IN_IT, NO_DRAFTER])
def test_a_missing_model_is_found_with_its_path(log: str) -> None:
    assert missing_model(log) == "/models/tiny/nope"


def test_a_missing_folder_in_the_root_is_found_as_well() -> None:
    assert missing_model(NO_FOLDER_OF_ONE_PART) == "/nope"


def test_of_a_name_on_a_hub_nothing_is_known() -> None:
    assert missing_model(NOT_ON_THE_HUB) is None


@pytest.mark.parametrize(
    "log", ["", "RuntimeError: out of memory\n", "ValueError: '/models/tiny/nope' is wrong"]
)
def test_another_end_is_no_missing_model(log: str) -> None:
    assert missing_model(log) is None
