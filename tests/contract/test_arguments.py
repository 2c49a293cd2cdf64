"""vLLM's own parser reads what is planned as it was meant."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from outrider.api.resource import SpeculativeModel
from outrider.plan import Plan, PlanSettings
from outrider.runtimes.flag_table import Form
from outrider.runtimes.vllm.flags import FLAGS
from outrider_protocol.releases import CPU_RELEASE, DEFAULT_RELEASE, parse_version
from tests.contract import engine_process, flag_words
from tests.unit.plan.factories import a_model, a_plan, arguments

pytestmark = pytest.mark.contract

_READ = """
import json, operator, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
read = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[2:])
print(json.dumps({name: operator.attrgetter(name)(read) for name in sys.argv[1].split(",")}))
"""

_READ_ALL = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
names = "max_model_len", "tensor_parallel_size", "max_num_seqs", "speculative_config"
read = {example: parser.parse_args(words) for example, words in json.loads(sys.argv[1]).items()}
print(json.dumps({example: {name: getattr(one, name) for name in names} for example, one in read.items()}))
"""
VERSION = CPU_RELEASE
"""Of the engine of these tests."""
EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "teams").glob("*.yaml"))


def read_model(path: Path) -> SpeculativeModel:
    """Without the cache, after whose download the engine is planned."""
    raw = yaml.safe_load(path.read_text())
    raw["spec"].pop("cache", None)
    return SpeculativeModel.model_validate(raw)


def a_plan_of(path: Path) -> Plan:
    return a_plan(read_model(path), settings=PlanSettings(engine_images={DEFAULT_RELEASE: "engine:default"}))


def printed(*program: str) -> str:
    """The last line of what the engine's Python prints."""
    ended = engine_process.run(program, os.environ, timeout=600)
    assert ended.returncode == 0, ended.log
    return ended.log.splitlines()[-1]


def understood(words: list[str], *names: str) -> dict[str, Any]:
    """Some of the values that vLLM takes from these words."""
    found: dict[str, Any] = json.loads(printed("-c", _READ, ",".join(names), *words))
    return found


def test_every_example_is_read_as_it_was_meant() -> None:
    """One process for all, since it imports vLLM."""
    planned = {path.stem: a_plan_of(path) for path in EXAMPLES}
    read = json.loads(
        printed("-c", _READ_ALL, json.dumps({name: arguments(p) for name, p in planned.items()}))
    )
    for path in EXAMPLES:
        spec = read_model(path).spec
        found = read[path.stem]
        assert found["max_model_len"] == spec.model.max_length
        assert found["tensor_parallel_size"] == spec.parallelism.tensor
        assert found["max_num_seqs"] == spec.engine.args["max-num-seqs"]
        wanted = spec.speculation.num_speculative_tokens
        assert found["speculative_config"]["num_speculative_tokens"] == wanted
    assert len(read) > 10


_NAMES = """
import json
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
print(json.dumps(list(make_arg_parser(FlexibleArgumentParser())._option_string_actions)))
"""


def test_the_flags_that_are_known_are_those_of_the_parser() -> None:
    """The engine of these tests is one of the releases of which they were read."""
    names = json.loads(printed("-c", _NAMES))
    long = {name[2:] for name in names if name.startswith("--")} - {"help"}
    assert {name for name in long if not FLAGS.known(name, VERSION)} == set()
    release = parse_version(VERSION)
    assert {name for name, flag in FLAGS.flags.items() if flag.is_in(release)} <= long
    assert {name[1:] for name in names if not name.startswith("--")} - {"h"} <= set(FLAGS.short)


def test_the_flags_that_take_several_values_are_those_of_the_parser() -> None:
    theirs = json.loads(printed("-c", flag_words.READ))
    assert set(theirs["SEVERAL"]) == FLAGS.several
    assert set(theirs["APPENDED"]) == {name for name, flag in FLAGS.flags.items() if flag.form is Form.APPEND}


def test_no_short_flags_and_nested_yaml_mean_what_the_spec_says() -> None:
    args = {
        "enable-prefix-caching": False,
        "async-scheduling": False,
        "cc.cudagraph_copy_inputs": True,
        "dcp": 1,
        "O": 3,
        "attention-config": {"use_prefill_query_quantization": True},
    }
    wanted = {
        "enable_prefix_caching": False,
        "async_scheduling": False,
        "compilation_config.cudagraph_copy_inputs": True,
        "decode_context_parallel_size": 1,
        "optimization_level": "3",
        "attention_config.use_prefill_query_quantization": True,
    }
    assert understood(arguments(a_plan(a_model(engine={"args": args}))), *wanted) == wanted


def test_the_planned_words_mean_what_the_spec_says() -> None:
    args = {
        "seed": -1,
        "enforce-eager": True,
        "max_num_seqs": 8,
        "middleware": ["-a.b=c", "d.e"],
        "compilation-config.cudagraph_capture_sizes": [1, 2],
        "compilation-config.cudagraph_copy_inputs": True,
        "lora-target-modules": ["q.proj", "-1"],
        "allowed-media-domains": ["a.example", "b.example"],
    }
    result = a_plan(a_model(engine={"args": args}))
    wanted = {
        "seed": -1,
        "enforce_eager": True,
        "max_num_seqs": 8,
        "middleware": ["-a.b=c", "d.e"],
        "compilation_config.cudagraph_capture_sizes": [1, 2],
        "compilation_config.cudagraph_copy_inputs": True,
        "lora_target_modules": ["q.proj", "-1"],
        "allowed_media_domains": ["a.example", "b.example"],
        "port": 8000,
        "api_key": None,
    }
    found = understood(arguments(result), "speculative_config", *wanted)

    assert found.pop("speculative_config")["num_speculative_tokens"] == 5
    assert found == wanted
