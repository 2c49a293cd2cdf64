"""The words of a shell script: `outrider import` reads them as a shell makes them."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.importing.shell import statements
from outrider.importing.shell_words import Unreadable
from outrider.importing.variables import LONGEST
from tests.unit.importing.kit import a_script, an_engine, spec_of, why_refused

VALUES = {
    "MODEL": "a/b",
    "FLAGS": "--dtype  half --seed 1",
    "EMPTY": "",
    "BLANKS": " x y ",
    "NAME": "my model",
}


def words(script: str) -> list[str]:
    (found,) = statements(script, VALUES, frozenset({"SECRET"}))
    return found


def of_a_shell(script: str) -> list[str]:
    """The words that sh makes of one command."""
    shown = f"show() {{ for word; do printf '%s\\n' \"[$word]\"; done; }}\nshow {script}"
    done = subprocess.run(["sh", "-c", shown], env=VALUES, capture_output=True, text=True, check=True)
    return [line[1:-1] for line in done.stdout.splitlines()]


SCRIPTS = [
    "$FLAGS",
    '"$FLAGS"',
    "'$FLAGS'",
    "${FLAGS}",
    "x$FLAGS-y",
    "x$BLANKS",
    "$BLANKS$MODEL",
    '$BLANKS"z"',
    "$EMPTY",
    '"$EMPTY"',
    "''",
    'a"$EMPTY"b',
    "${NONE:-a b}",
    '"${NONE:-a b}"',
    "${NONE:-'a b'}",
    '${NONE:-"a b"}',
    "${EMPTY:-a}",
    "${EMPTY-a}",
    "${NONE-}",
    "--name=$NAME",
    '--name="$NAME"',
    "\\$FLAGS",
    '"\\$FLAGS"',
    '"a\\b"',
    "a\\ b",
    "a\\\nb",
    '"a\\\nb"',
    "a # comment's end",
    "a#b",
    "'a;b' \"c&&d\" 'e`f`'",
    "a$",
    "'{\"a\": [1, 2]}'",
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_command_has_the_words_that_a_shell_makes_of_it(script: str) -> None:
    assert words(f"run {script}")[1:] == of_a_shell(script)


@given(
    st.lists(st.sampled_from([*"ab '\"", "\\", "$MODEL", "${FLAGS}", "$BLANKS", "$EMPTY", "#"]), max_size=8)
)
def test_any_mix_of_quotes_and_variables_is_read_or_refused(parts: list[str]) -> None:
    try:
        found = words(f"run x{''.join(parts)}")
    except Unreadable:
        return
    assert found[0] == "run"


def test_the_variables_of_a_container_become_flags() -> None:
    container = a_script(
        "vllm serve $MODEL $EXTRA_ARGS",
        MODEL="a/b",
        EXTRA_ARGS="--quantization awq --tensor-parallel-size 2 --max-model-len 8192",
    )
    spec = spec_of(container)
    assert spec["engine"]["args"] == {"quantization": "awq"}
    assert spec["parallelism"] == {"tensor": 2}
    assert spec["model"]["maxLength"] == 8192


def test_a_variable_in_quotes_is_one_value() -> None:
    container = a_script('vllm serve a/b --chat-template "$TEMPLATE"', TEMPLATE="{{ a }} --b c")
    assert spec_of(container)["engine"]["args"] == {"chat-template": "{{ a }} --b c"}


def test_a_variable_that_the_script_sets_is_split_like_one_of_the_container() -> None:
    script = "FIRST='--seed 1'; export FLAGS=\"$FIRST --dtype half\"\nvllm serve a/b $FLAGS"
    assert spec_of(a_script(script))["engine"]["args"] == {"seed": 1, "dtype": "half"}


def test_an_assignment_takes_a_value_with_blanks_whole() -> None:
    script = "export A=$B C=$B; vllm serve a/b"
    container = a_script(script, B="x y")
    env = spec_of(container)["podTemplate"]["spec"]["containers"][0]["env"]
    assert {"name": "C", "value": "x y"} in env


def test_kubernetes_replaces_its_variables_before_the_shell_reads_the_script() -> None:
    container = a_script("vllm serve a/b $(FLAGS) --seed '$(SEED)'", FLAGS="--dtype half", SEED="1")
    assert spec_of(container)["engine"]["args"] == {"dtype": "half", "seed": 1}


def test_a_comment_may_hold_what_outside_of_it_needs_a_shell() -> None:
    script = "# don't use `cat` | or <<\nvllm serve a/b # as $(this one) does"
    assert spec_of(a_script(script))["model"]["uri"] == "hf://a/b"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("vllm serve a/b $NONE", "uses the variable NONE, whose value the source does not have"),
        ('vllm serve a/b "`cat x`"', "runs a command inside another one"),
        ("vllm serve a/b $1", "uses a variable of the shell itself"),
        ('vllm serve a/b ${X:-a"b}', "has a default with quotes in it"),
        ("vllm serve a/b <<END", "holds a here-document"),
        ("vllm serve a/b > log", "uses '>'"),
        ('vllm serve "a/b', "has a quote that does not end"),
    ],
)
def test_what_needs_a_shell_is_refused_with_what_it_is(script: str, why: str) -> None:
    found = why_refused(a_script(script))
    assert found.startswith(f"the container's shell script {why}, and Outrider reads simple commands only; ")


def test_a_variable_that_stands_in_a_script_very_often_is_refused() -> None:
    script = "vllm serve a/b " + "$X " * 5_000
    assert "grows by more than 65536 characters" in why_refused(a_script(script, X="x " * 1_000))


def test_variables_that_double_each_other_are_refused() -> None:
    doubled = "".join(f"A{n + 1}=$A{n}$A{n}; " for n in range(40))
    assert str(LONGEST) in why_refused(a_script(f"A0=xx; {doubled} vllm serve $A40"))
    env: list[dict[str, Any]] = [{"name": "A0", "value": "xx"}]
    env += [{"name": f"A{n + 1}", "value": f"$(A{n})$(A{n})"} for n in range(40)]
    assert str(LONGEST) in why_refused(an_engine("a/b", env=env))
