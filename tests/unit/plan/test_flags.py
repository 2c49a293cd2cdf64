"""What is known of vLLM's flags, and how it is read from parsers."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from engine_image.testing.contract import sglang_flags
from engine_image.testing.contract.flags import render
from engine_image.testing.contract.wheels import SUPPORTED
from outrider.runtimes.flag_table import Form
from outrider.runtimes.vllm.flags import FLAGS
from outrider_protocol.releases import DEFAULT_RELEASE, NEWEST_VERSION, OLDEST_VERSION, parse_version


def test_every_supported_release_is_covered() -> None:
    releases = {parse_version(one.version) for one in SUPPORTED}
    assert {OLDEST_VERSION, NEWEST_VERSION} <= releases
    ends = {end for flag in FLAGS.flags.values() for end in (flag.since, flag.until)}
    assert ends - {None} <= releases


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("enable-prefix-caching", Form.PAIR),
        ("enable_prefix_caching", Form.PAIR),
        ("enable-prefix-cach", Form.PAIR),
        ("aggregate-engine-logging", Form.SWITCH),
        ("max-num-seqs", Form.VALUE),
        ("compilation-config.level", Form.VALUE),
        ("of-a-plugin", None),
    ],
)
def test_the_form_of_a_flag_is_known_shortened_or_not(name: str, form: Form | None) -> None:
    assert FLAGS.form_of(name) is form


@pytest.mark.parametrize(
    ("name", "full"),
    [("max-num-seq", "max-num-seqs"), ("max_num_seq", "max-num-seqs"), ("max-num-seqs", None), ("O", None)],
)
def test_a_shortened_flag_is_named_in_full(name: str, full: str | None) -> None:
    """Outrider reads some flags itself, and would plan without the value of a shortened one."""
    said = FLAGS.advice(name, DEFAULT_RELEASE)
    assert (said or "").endswith("" if full is None else f"write {full}")
    assert (said is None) == (full is None)


def test_short_names_stand_behind_one_dash() -> None:
    assert (FLAGS.dashed("cc.level"), FLAGS.dashed("max-num-seqs"), FLAGS.full_name("dcp")) == (
        "-cc.level",
        "--max-num-seqs",
        "decode-context-parallel-size",
    )
    assert set(FLAGS.short.values()) <= set(FLAGS.flags)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("no-async-scheduling", "async-scheduling"),
        ("disable-prefix-caching", "enable-prefix-caching"),
        ("async-scheduling", None),
        ("no-such-thing", None),
    ],
)
def test_the_no_of_a_flag_is_known(name: str, meant: str | None) -> None:
    assert FLAGS.positive(name) == meant


def test_the_nearest_flag_is_one_of_the_release() -> None:
    assert FLAGS.nearest("max-num-sequences", "0.33.0") == "max-num-seqs"
    assert FLAGS.nearest("xyzzy", "0.33.0") is None
    assert not FLAGS.known("max-num-sequences", "0.33.0")


def test_parsers_become_a_module_with_the_releases_of_each_flag() -> None:
    old = [("pair", ["--a", "--no-a"]), ("value", ["--old"]), ("value", ["--b", "-b"])]
    new = [
        ("pair", ["--a", "--no-a"]),
        ("pair", ["--enable-x", "--no-enable-x", "--disable-x"]),
        ("value", ["--b", "-b"]),
    ]
    text = render({"0.1": old, "0.2": new})
    assert 'PAIR = """\na enable-x:0.2-\n"""' in text
    assert 'VALUE = """\nb old:-0.1\n"""' in text
    assert 'SHORT = """\nb=b\n"""' in text
    assert 'OPPOSITES = """\ndisable-x=enable-x\n"""' in text


def test_annotations_of_sglangs_source_become_arguments(tmp_path: Path) -> None:
    wheel = tmp_path / "sglang.whl"
    with zipfile.ZipFile(wheel, "w") as written:
        written.writestr("sglang/srt/arg_groups/fields/spec.py", FIELDS)
        written.writestr("sglang/srt/server_args.py", SERVER_ARGS)
    with zipfile.ZipFile(wheel) as opened:
        found = sglang_flags.arguments(zipfile.Path(opened))
    assert [(one.form, one.names, one.several) for one in found] == [
        ("value", ("--draft-path", "--draft"), False),
        ("switch", ("--adaptive",), False),
        ("value", ("--modules",), True),
        ("pair", ("--fused",), False),
        ("value", ("--tensor-size",), False),
        ("value", ("--config",), False),
        ("switch", ("--old",), False),
    ]


FIELDS = """
class Spec(Struct):
    draft_path: A[Optional[str], Arg(help="x", aliases=["--draft"])] = None
    inner: A[str, Arg(no_cli=True)] = "x"
    adaptive: A[bool, "A sentence."] = False
    modules: A[Optional[List[str]], "Several words."] = None
    fused: A[Optional[bool], Arg(action=argparse.BooleanOptionalAction)] = None
    tp_size: A[int, Arg(cli_name="--tensor-size")] = 1
"""
SERVER_ARGS = """
def add_cli_args(parser):
    parser.add_argument("--config", type=str)
    parser.add_argument("--old", action=DeprecatedStoreTrueAction, new_flag="--new")
"""
