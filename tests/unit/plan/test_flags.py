"""What is known of vLLM's flags, and how it is read from parsers."""

from __future__ import annotations

import pytest

from engine_image.testing.contract.flags import render
from engine_image.testing.contract.wheels import SUPPORTED
from outrider.runtimes.flag_table import Form
from outrider.runtimes.vllm.flags import FLAGS
from outrider_protocol.releases import NEWEST_VERSION, OLDEST_VERSION, parse_version


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
