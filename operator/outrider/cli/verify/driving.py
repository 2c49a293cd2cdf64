"""Asks a live model with and without drafts, and compares the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import httpx

from outrider.cli.common.cluster import access
from outrider.cli.common.options import ClusterChoice
from outrider.cli.common.output import CommandError
from outrider.cli.common.override import Override, overridable_model, overriding
from outrider.cli.common.processes import url_of
from outrider.cli.verify.asking import Client, Declined
from outrider.verify.greedy import Answer, Difference, compare, has_defect
from outrider.verify.result import Result
from outrider.verify.sampling import position_tests
from outrider.verify.structured import QUESTIONS, Form, Structured, StructuredAnswer, structured
from outrider_protocol.schedule import Schedule

POSITIONS = 3
"""Positions of sampled answers to test. The first token needs no draft; drafts make the others."""
_OVERRIDE_SECONDS = 900.0

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Question:
    """The options of a verification."""

    cluster: ClusterChoice
    name: str
    k: int | None  # None: the largest candidate
    prompts: Sequence[str]
    tokens: int
    samples: int
    structured: bool
    tie: float
    url: str | None


async def verify(question: Question, notify: Notify, keep: Callable[[Result], None]) -> None:
    """Ask for greedy, structured and sampled answers without drafts and with them, and compare.

    Greedy and structured ones without drafts are asked again where drafts change some: they may differ, too.

    keep: gets the result once greedy answers are compared, again with the structured and with the sampled
    ones.
    """
    async with access(question.cluster) as there, httpx.AsyncClient() as http:
        model, candidates = await overridable_model(
            there, question.name, () if question.k is None else (question.k,)
        )
        speculation = model.status.speculation
        if speculation is not None and speculation.simulated is not None:
            raise CommandError(
                f"the engines of {question.name} are simulated, so their answers mean nothing."
            )
        k = candidates[-1] if question.k is None else question.k
        async with (
            url_of(there.choice, question.name, question.url) as url,
            overriding(there, question.name, notify) as override,
        ):
            client = Client(http, url, model.spec.model.served_name or question.name)
            asker = _Asker(client, override, question, notify)
            plain = await asker.greedy(0)
            forms = [await asker.plain_structured(form) for form in Form] if question.structured else []
            plain_samples = await asker.sampled(0, seed=0)
            greedy = asker.differences(plain, await asker.greedy(k))
            again = asker.differences(plain, await asker.greedy(0)) if has_defect(greedy) else ()
            found = Result(
                namespace=there.namespace,
                name=question.name,
                k=k,
                tokens=question.tokens,
                tie=question.tie,
                greedy=greedy,
                again=again,
                sampled=(),
            )
            keep(found)
            if forms:
                found = replace(found, structured=[await asker.compared(form, k) for form in forms])
                keep(found)
            speculated_samples = await asker.sampled(k, seed=question.samples)
            if question.samples:
                tests = position_tests(plain_samples, speculated_samples, positions=POSITIONS)
                keep(replace(found, sampled=tests))


@dataclass(frozen=True, slots=True)
class _Plain:
    """Structured answers without drafts. omitted: why the model was not asked."""

    form: Form
    answers: Sequence[StructuredAnswer] = ()
    omitted: str | None = None


@dataclass(frozen=True, slots=True)
class _Asker:
    """Overrides K, asks, and checks that the override lasted."""

    client: Client
    override: Override
    question: Question
    notify: Notify

    async def greedy(self, k: int) -> list[Answer]:
        """One answer per prompt, one request at a time: batches of other sizes round otherwise."""
        await self._begin(k, f"{len(self.question.prompts)} greedy answers")
        tokens = self.question.tokens
        answers = [await self.client.greedy(prompt, tokens=tokens) for prompt in self.question.prompts]
        await self._end(k)
        return answers

    def differences(self, plain: Sequence[Answer], other: Sequence[Answer]) -> list[Difference]:
        """Where the answers to each prompt part."""
        return [compare(*pair, tie=self.question.tie) for pair in zip(plain, other, strict=True)]

    async def sampled(self, k: int, *, seed: int) -> list[tuple[str, ...]]:
        """Answers to the first prompt."""
        await self._begin(k, f"{self.question.samples} sampled answers")
        samples, prompt = self.question.samples, self.question.prompts[0]
        answers = await self.client.sampled(prompt, tokens=POSITIONS, samples=samples, seed=seed)
        await self._end(k)
        return answers

    async def plain_structured(self, form: Form) -> _Plain:
        """Answers without drafts, unless the engine answers no such request."""
        try:
            return _Plain(form, await self._structured(form, 0))
        except Declined as error:
            return _Plain(form, omitted=f"the engine answers {error}")

    async def compared(self, plain: _Plain, k: int) -> Structured:
        """The comparison with answers with drafts."""
        if plain.omitted is not None:
            return Structured(plain.form, omitted=plain.omitted)
        form, tie = plain.form, self.question.tie
        speculated = await self._structured(form, k)
        found = structured(form, plain.answers, speculated, tie=tie)
        if not found.differs:
            return found
        return structured(form, plain.answers, speculated, await self._structured(form, 0), tie=tie)

    async def _structured(self, form: Form, k: int) -> list[StructuredAnswer]:
        questions = QUESTIONS[form]
        await self._begin(k, f"{len(questions)} answers, {form}")
        answers = [await self.client.structured(form, each) for each in questions]
        await self._end(k)
        return answers

    async def _begin(self, k: int, what: str) -> None:
        await self.override.set(Schedule.constant(k), seconds=_OVERRIDE_SECONDS)
        self.notify(f"K={k}: {what}")

    async def _end(self, k: int) -> None:
        if not await self.override.holds(Schedule.constant(k)):
            raise CommandError("the schedule changed meanwhile, or the answers took too long. Begin again.")
