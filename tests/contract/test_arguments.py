"""vLLM's own parser reads what is planned as it was meant."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.contract.engine import PYTHON
from tests.unit.plan.factories import a_model, a_plan, arguments

pytestmark = pytest.mark.contract

_READ = """
import json, operator, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
read = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[2:])
print(json.dumps({name: operator.attrgetter(name)(read) for name in sys.argv[1].split(",")}))
"""


def understood(words: list[str], *names: str) -> dict[str, Any]:
    """Some of the values that vLLM takes from these words."""
    command = [str(PYTHON), "-c", _READ, ",".join(names), *words]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def test_the_planned_words_mean_what_the_spec_says() -> None:
    args = {
        "seed": -1,
        "enforce-eager": True,
        "max_num_seqs": 8,
        "middleware": "-a.b=c",
        "compilation-config.cudagraph_capture_sizes": [1, 2],
        "compilation-config.cudagraph_copy_inputs": True,
        "lora-target-modules": ["q.proj", "-1"],
    }
    result = a_plan(a_model(engine={"args": args}))
    wanted = {
        "seed": -1,
        "enforce_eager": True,
        "max_num_seqs": 8,
        "middleware": ["-a.b=c"],
        "compilation_config.cudagraph_capture_sizes": [1, 2],
        "compilation_config.cudagraph_copy_inputs": True,
        "lora_target_modules": ["q.proj", "-1"],
        "port": 8000,
        "api_key": None,
    }
    found = understood(arguments(result), "speculative_config", *wanted)

    assert found.pop("speculative_config")["num_speculative_tokens"] == 5
    assert found == wanted
