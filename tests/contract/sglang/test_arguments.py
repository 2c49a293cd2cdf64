"""SGLang's own parser knows every flag that the operator knows, and takes what the operator writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from outrider.runtimes.flag_table import Form
from outrider.runtimes.sglang.flags import FLAGS
from outrider_protocol.sglang_releases import DEFAULT_RELEASE, parse_release
from tests.contract.engine_process import SGLANG, fork_with_sglang, run
from tests.unit.plan.factories import a_plan, arguments
from tests.unit.runtimes.sglang_models import HEAD, OFF, ROLLOUT, a_sglang_model

LAUNCHES = {
    "eagle3": a_sglang_model(),
    "eagle": a_sglang_model("eagle"),
    "mtp": a_sglang_model("mtp", {}),
    "draft_model": a_sglang_model("draft_model", {**HEAD, **OFF}),
    "ngram": a_sglang_model("ngram", OFF),
    "dflash": a_sglang_model("dflash", {**HEAD, **OFF}),
    "dspark": a_sglang_model("dspark", {**HEAD, **OFF}),
    "without the plugin": a_sglang_model("eagle3", {**HEAD, **ROLLOUT}),
    "large": a_sglang_model(
        parallelism={"tensor": 4, "expert": True},
        model={"uri": "hf://org/model", "revision": "abc", "maxLength": 8192},
    ),
}
PARSE = """
import argparse, json, sys
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
pair = argparse.BooleanOptionalAction
forms = {}
for action in parser._actions:
    kind = "pair" if isinstance(action, pair) else "switch" if action.nargs == 0 else "value"
    for name in action.option_strings:
        forms[name] = [kind, action.nargs in ("+", "*")]
read = {name: vars(parser.parse_args(words)) for name, words in json.loads(sys.argv[1]).items()}
print(json.dumps([forms, read], default=str))
"""
"""Prints each flag with its form, and what the parser read in each command line."""


@pytest.fixture(scope="module")
def parsed(sglang_plugin: Path) -> tuple[dict[str, tuple[str, bool]], Mapping[str, Mapping[str, Any]]]:
    """The flags of SGLang's parser, and what it reads for each launch."""
    folders = os.pathsep.join(map(str, (sglang_plugin, SGLANG)))
    words = {name: arguments(a_plan(model)) for name, model in LAUNCHES.items()}
    variables = {**os.environ, "PYTHONPATH": folders, "SGLANG_USE_CPU_ENGINE": "1", "SGLANG_PLUGINS": "none"}
    ended = run(["-c", PARSE, json.dumps(words)], variables, timeout=300, start=fork_with_sglang)
    assert ended.returncode == 0, ended.log
    forms, read = json.loads(ended.log.splitlines()[-1])
    return forms, read


def test_every_flag_is_known_with_its_form(parsed: tuple[dict[str, tuple[str, bool]], object]) -> None:
    release = parse_release(DEFAULT_RELEASE)
    theirs = {name.removeprefix("--"): form for name, form in parsed[0].items() if name.startswith("--")}
    negative = {f"no-{name}" for name, (form, _) in theirs.items() if form == Form.PAIR}
    wanted = {name: form for name, form in theirs.items() if name not in {"help", *negative}}
    ours = {name: flag.form for name, flag in FLAGS.flags.items() if flag.is_in(release)}
    assert {name: form for name, (form, _) in wanted.items()} == ours
    assert {name for name, (_, several) in wanted.items() if several} == FLAGS.several


@pytest.mark.parametrize(
    ("launch", "wanted"),
    [
        ("eagle3", {"algorithm": "EAGLE3", "num_steps": 5, "num_draft_tokens": 6, "adaptive": True}),
        ("eagle", {"algorithm": "EAGLE", "num_steps": 5, "eagle_topk": 1}),
        ("mtp", {"algorithm": "NEXTN", "draft_model_path": None, "adaptive": True}),
        ("draft_model", {"algorithm": "STANDALONE", "num_steps": 5, "adaptive": False}),
        ("ngram", {"algorithm": "NGRAM", "num_steps": None, "num_draft_tokens": 6}),
        ("dflash", {"algorithm": "DFLASH", "dflash_block_size": 6}),
        ("dspark", {"algorithm": "DSPARK", "dspark_block_size": 5}),
        ("without the plugin", {"algorithm": "EAGLE3", "adaptive": True}),
    ],
)
def test_speculation_is_read_as_it_is_meant(
    parsed: tuple[object, Mapping[str, Mapping[str, Any]]], launch: str, wanted: Mapping[str, object]
) -> None:
    read = parsed[1][launch]
    assert {name: read[f"speculative_{name}"] for name in wanted} == wanted


def test_sizes_are_read_as_they_are_meant(parsed: tuple[object, Mapping[str, Mapping[str, Any]]]) -> None:
    read = parsed[1]["large"]
    assert (read["tp_size"], read["ep_size"], read["context_length"], read["revision"]) == (4, 4, 8192, "abc")
    assert (read["host"], read["port"], read["enable_metrics"]) == ("0.0.0.0", 8000, True)
