"""JSON by a schema and tool calls of real engines, by the client of ``outrider verify``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from outrider.cli.verify.asking import Client
from outrider.verify.greedy import Comparison
from outrider.verify.structured import QUESTIONS, Form, StructuredAnswer, structured
from tests.contract import quick_start
from tests.contract.engine import NGRAM, SERVED_NAME, Engine, Launch, running_engine
from tests.contract.factories import a_constant, a_push

pytestmark = pytest.mark.contract

K = 4
COMPACT = ("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}')
"""A tiny model would fill its answers with blanks, which the grammar permits."""


@pytest.fixture(scope="module")
def drafting(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that looks drafts up in the text, where structured answers repeat themselves."""
    flags = (*COMPACT, "--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    launch = Launch(speculation=NGRAM, candidates=(0, K), plugins=(quick_start.NAME,), flags=flags)
    with running_engine(plugin, tmp_path_factory.mktemp("structured"), launch) as engine:
        yield engine


def answers(engine: Engine, form: Form) -> list[StructuredAnswer]:
    async def ask() -> list[StructuredAnswer]:
        async with httpx.AsyncClient(trust_env=False) as http:
            client = Client(http, engine.url, SERVED_NAME)
            return [await client.structured(form, question) for question in QUESTIONS[form][:3]]

    return asyncio.run(ask())


def use(engine: Engine, k: int, *, term: int, epoch: int) -> None:
    assert engine.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).status_code == 200


@pytest.mark.parametrize("form", Form)
def test_drafts_change_no_structured_answer(drafting: Engine, form: Form, term: int) -> None:
    use(drafting, 0, term=term, epoch=1)
    plain = answers(drafting, form)
    before = drafting.counter("vllm:spec_decode_num_accepted_tokens_total")
    use(drafting, K, term=term, epoch=2)
    speculated = answers(drafting, form)
    assert drafting.counter("vllm:spec_decode_num_accepted_tokens_total") > before, "no draft was accepted"
    found = structured(form, plain, speculated)
    print(*(each.content for each in speculated), sep="\n")
    assert [each.comparison for each in found.greedy] == [Comparison.EQUAL] * len(plain)
    assert list(found.faults) == [None] * len(plain)
    assert form is not Form.JSON or found.cut == 0, "the form of a cut answer is unknown"
