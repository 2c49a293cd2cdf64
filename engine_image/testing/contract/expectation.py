"""One line of the contract."""

from __future__ import annotations

from dataclasses import dataclass

from engine_image.testing.contract.forms import Form
from outrider_protocol.releases import Version


@dataclass(frozen=True, slots=True)
class Expectation:
    """One line of the contract.

    used_by: the module of this project that breaks without it.
    since: the first version in which it is needed, where the code does without it before.
    until: the first version in which another line takes its place.
    """

    form: Form
    used_by: str
    since: Version | None = None
    until: Version | None = None

    def needed_in(self, version: Version) -> bool:
        """Whether a release has to keep it."""
        begun = self.since is None or version >= self.since
        return begun and (self.until is None or version < self.until)


def of(
    used_by: str, *forms: Form, since: Version | None = None, until: Version | None = None
) -> tuple[Expectation, ...]:
    """Several lines for one module."""
    return tuple(Expectation(form, used_by, since, until) for form in forms)
