"""What an engine's parser takes: its flags by release, switches among them, and how a value is written."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from outrider.api.engine_args import Scalar
from outrider.api.text import shortened

Release = tuple[int, ...]
_NEGATIVE_NUMBER = re.compile(r"-[0-9]+")
"""The only word with a dash in front that argparse takes for a value; at ``-0.5`` it goes astray."""


class Form(StrEnum):
    """How a flag is written."""

    PAIR = "pair"
    """``--flag`` and ``--no-flag``."""
    SWITCH = "switch"
    """``--flag`` alone; without it the answer is no."""
    VALUE = "value"
    APPEND = "append"
    """With a value, and again for each further value."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag, and the releases that have it, both inclusive; None: no end."""

    form: Form
    since: Release | None
    until: Release | None

    def is_in(self, release: Release) -> bool:
        """Whether a release has the flag."""
        return (self.since is None or self.since <= release) and (self.until is None or release <= self.until)


class FlagTable:
    """The flags of one engine. Names are without dashes in front.

    engine: its name in messages. release: reads a version. forms: names of each form with the releases that
    have them, such as ``name:0.28-0.31``; an end is left out where it is open. short: ``tp=tensor-parallel``.
    opposites: ``disable-x=enable-x``, where the engine has both as one pair. several: flags that take
    several words. paths: whether what follows a dot is a place in JSON.
    """

    def __init__(
        self,
        engine: str,
        release: Callable[[str], Release],
        forms: Mapping[Form, str],
        *,
        short: str = "",
        opposites: str = "",
        several: str = "",
        paths: bool = False,
    ) -> None:
        self.engine, self._release, self._paths = engine, release, paths
        self.flags: Mapping[str, Flag] = {
            name: self._flag(form, span)
            for form, text in forms.items()
            for name, _, span in (word.partition(":") for word in text.split())
        }
        self.short: Mapping[str, str] = _pairs(short)
        """Name behind a single dash -> the flag that it is short for."""
        self._opposites = _pairs(opposites)
        self.several = frozenset(several.split())
        """Flags that take several words."""

    def _flag(self, form: Form, span: str) -> Flag:
        since, _, until = span.partition("-")
        return Flag(form, self._release(since) if since else None, self._release(until) if until else None)

    def full_name(self, name: str) -> str:
        """The flag that a key of ``spec.engine.args`` means, without a JSON path: dashes, and not short."""
        head = name.partition(".")[0].replace("_", "-")
        return self.short.get(head, head)

    def dashed(self, name: str) -> str:
        """A key as the parser reads it: ``--max-num-seqs``, and ``-cc.level`` of a short one."""
        return f"-{name}" if name.partition(".")[0] in self.short else f"--{name}"

    def form_of(self, name: str) -> Form | None:
        """How a flag is written, shortened or not; None where no supported release has it."""
        meant = self.full_name(name)
        found = (
            [self.flags[meant]]
            if meant in self.flags
            else [row for long, row in self.flags.items() if long.startswith(meant)]
        )
        forms = {row.form for row in found}
        return forms.pop() if len(forms) == 1 else None

    def positive(self, name: str) -> str | None:
        """The flag whose "no" this is: ``async-scheduling`` of ``no-async-scheduling``; None of others."""
        meant = self.full_name(name)
        if meant in self.flags:
            return None
        bare = meant.removeprefix("no-")
        return bare if bare != meant and self.form_of(bare) is Form.PAIR else self._opposites.get(meant)

    def known(self, name: str, version: str) -> bool:
        """Whether the parser of this release takes the key; it takes shortened flags, too."""
        meant = self.full_name(name)
        return bool(self._begun_by(self.positive(meant) or meant, version))

    def nearest(self, name: str, version: str) -> str | None:
        """The flag of this release that is written most alike."""
        names = self._begun_by("", version)
        return next(iter(difflib.get_close_matches(self.full_name(name), names, n=1, cutoff=0.6)), None)

    def advice(self, name: str, version: str) -> str | None:
        """What is wrong with a key for the parser of this release, or for Outrider; None where nothing is."""
        shown = shortened(name, 60)
        if self.known(name, version):
            full = self._completed(name, version)
            if full is None:
                return None
            return (
                f"spec.engine.args.{shown}: {self.engine} takes this for {full}. Outrider plans without its "
                f"value, because it reads whole names alone; write {full}"
            )
        alike = self.nearest(name, version)
        instead = "a plugin may have it" if alike is None else f"did you mean {alike}? A plugin may have it"
        return f"spec.engine.args.{shown}: the parser of {self.engine} {version} has no such flag; {instead}"

    def _completed(self, name: str, version: str) -> str | None:
        """The flag that a shortened key means; None of a whole one, and where it may mean several."""
        meant = self.full_name(name)
        if meant in self.flags or self.positive(name) is not None:
            return None
        found = self._begun_by(meant, version)
        return found[0] if len(found) == 1 else None

    def _begun_by(self, start: str, version: str) -> list[str]:
        """The flags of this release that begin so."""
        release = self._release(version)
        return [long for long, flag in self.flags.items() if long.startswith(start) and flag.is_in(release)]

    def words(self, flag: str, value: Scalar | list[Scalar]) -> list[str]:
        """A key of ``spec.engine.args`` and its value as the parser takes them.

        One word where the parser allows it, so that nothing in the value is read as another flag.

        Raises:
            ValueError: the parser would read something else; the message names the field.
        """
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and item.startswith("--"):
                raise _like_a_flag(flag, item)
        if self._paths and "." in flag:  # A part of a flag that takes JSON.
            return [f"{self.dashed(flag)}={value if isinstance(value, str) else json.dumps(value)}"]
        if isinstance(value, bool):
            return self._switch(flag, on=value)
        if isinstance(value, list) and self.form_of(flag) is Form.APPEND:
            return [f"{self.dashed(flag)}={item}" for item in value]
        if isinstance(value, list):
            return [self.dashed(flag), *(_item(flag, item) for item in value)]
        return [f"{self.dashed(flag)}={value}"]

    def _switch(self, flag: str, *, on: bool) -> list[str]:
        """``false`` is ``--no-flag``, and not "leave it to the engine", for which the key is left out."""
        form, positive = self.form_of(flag), self.positive(flag)
        if form in (Form.VALUE, Form.APPEND):
            said = "true" if on else "false"
            raise ValueError(
                f"spec.engine.args.{flag}: {self.engine} takes a value for this flag, and not {said}; write "
                f"the value, or leave the key out for {self.engine}'s default"
            )
        if on:
            return [self.dashed(flag)]
        if positive is not None:
            return [f"--{positive}"]
        # The engine has no other word for the "no" of a switch than its absence.
        return [] if form is Form.SWITCH else [f"--no-{self.full_name(flag)}"]


def _pairs(text: str) -> dict[str, str]:
    return {short: meant for short, _, meant in (word.partition("=") for word in text.split())}


def _item(flag: str, item: Scalar) -> str:
    """A word of its own, which several values of one flag have to be."""
    word = str(item)
    if word.startswith("-") and not _NEGATIVE_NUMBER.fullmatch(word):
        raise _like_a_flag(flag, word)
    return word


def _like_a_flag(flag: str, value: str) -> ValueError:
    why = f"{shortened(value, 40)} would be read as a flag, and not as a value"
    return ValueError(f"spec.engine.args.{flag}: {why}; write each flag under its own name")
