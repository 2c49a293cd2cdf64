"""A drafter whose vocabulary is not the target's, in real vLLM: it drafts, is left out, catches up, and
changes no token."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract import engine_process, quick_start
from tests.contract.answers import Answer
from tests.contract.engine import DRAFT_MODEL, MODELS, Engine, Launch, running_engine
from tests.contract.equality import check
from tests.contract.gaps import (
    CAUGHT_UP,
    CHANCE,
    SKIPPED,
    a_gap,
    accepted,
    accepted_per_step,
    counted_at,
    push,
)

pytestmark = pytest.mark.contract

CANDIDATES = (0, 2, 3)
GIVEN_AFTER_A_GAP = 1.0
"""Accepted tokens per draft of three. The drafter accepts about two and a half of its own vocabulary; without
the text of the gap, or with tokens of the other vocabulary, it would be guessing."""

WRITE = """
import json, shutil, sys, torch
from pathlib import Path
from safetensors.torch import load_file, save_file

source, target, unknown = Path(sys.argv[1]), Path(sys.argv[2]), 7
shutil.copytree(source, target)
size = json.loads((source / "config.json").read_text())["vocab_size"]
moved = [(token + 100) % size + unknown for token in range(size)]

def rewrite(name, change):
    told = json.loads((source / name).read_text())
    change(told)
    (target / name).write_text(json.dumps(told))

def renumber(tokenizer):
    words = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {word: moved[token] for word, token in words.items()}
    for number in range(unknown):
        tokenizer["model"]["vocab"][f"<unknown {number}>"] = number
    for added in tokenizer["added_tokens"]:
        added["id"] = moved[added["id"]]

def resize(config):
    config["vocab_size"] = size + unknown
    config["bos_token_id"] = config["eos_token_id"] = moved[config["eos_token_id"]]

rewrite("tokenizer.json", renumber)
rewrite("config.json", resize)
(target / "generation_config.json").unlink()
weights = load_file(source / "model.safetensors")
for name in ("model.embed_tokens.weight", "lm_head.weight"):
    old = weights[name]
    new = old.new_full((size + unknown, old.shape[1]), 0.0)
    new[torch.tensor(moved)] = old
    if name == "lm_head.weight":
        new[:unknown] = 3 * old[list(b" \\n_etr(")]  # likelier than what both have
    weights[name] = new
save_file(weights, target / "model.safetensors")
"""
"""The same drafter under other numbers, with tokens that the target lacks."""


@pytest.fixture(scope="module")
def other(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The tiny target, with the tiny drafter under another vocabulary."""
    folder = tmp_path_factory.mktemp("vocabulary")
    drafter = folder / "drafter"
    written = engine_process.run(
        ["-c", WRITE, str(MODELS / "drafter"), str(drafter)], os.environ, timeout=300
    )
    assert written.returncode == 0, written.log
    launch = Launch(
        speculation={**DRAFT_MODEL, "model": str(drafter), "use_heterogeneous_vocab": True},
        candidates=CANDIDATES,
        plugins=(quick_start.NAME,),
    )
    with running_engine(plugin, folder, launch) as engine:
        yield engine


def test_it_can_be_tuned(other: Engine) -> None:
    state = other.first_state
    assert (state["method"], state["runner"], state["problems"]) == ("draft_model", "V1", [])
    assert state["liveTuning"] == {"possible": True, "reason": None}


def test_its_drafts_are_accepted_far_above_chance(other: Engine, term: int) -> None:
    counted = counted_at(other, term, 1, 3, "accepted")
    shares = accepted(counted)
    print(shares)
    assert shares["0"] > 3 * CHANCE
    assert shares["2"] > CHANCE
    assert not counted.disagreements()


def test_what_it_missed_while_it_was_left_out_is_read_in_its_own_vocabulary(other: Engine, term: int) -> None:
    push(other, term, 1, 3)
    counted = a_gap(other, term, "other vocabulary")
    print(f"accepted per step: {accepted_per_step(counted):.3f}")
    assert counted.total(SKIPPED) > 0
    assert counted.total(CAUGHT_UP) > 0
    assert accepted_per_step(counted) > GIVEN_AFTER_A_GAP


def test_it_changes_no_token(other: Engine, term: int, plain: list[Answer]) -> None:
    check(other, term, plain, CANDIDATES, "vocabulary")
