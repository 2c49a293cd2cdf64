"""What tests of several commands share."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

from rich.console import Console, RenderableType

from tests.unit.cli.kubernetes import Body, Kubernetes
from tests.unit.controller.factories import a_raw_model


def printed(screen: RenderableType, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(screen)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


PATH = "/apis/outrider.dev/v1alpha1/namespaces/default/speculativemodels/m"
OVERRIDE, UNTIL = "outrider.dev/schedule-override", "outrider.dev/schedule-override-until"


class Tuned(Kubernetes):
    """An operator that does at once what an override says. tables: those it brought, in their order."""

    def __init__(self, **spec: Any) -> None:
        super().__init__()
        speculation = {"method": "ngram", "numSpeculativeTokens": 5, **spec}
        self.model = a_raw_model("m", speculation=speculation, status=a_status("*:3", "Tuning"))
        self.objects[PATH] = self.model
        self.tables: list[str | None] = []
        self.decisions: list[Body] = []
        self.refuses = False
        self.after_each_override: Callable[[], None] = lambda: None

    @property
    def annotations(self) -> Body:
        found: Body = self.model["metadata"].setdefault("annotations", {})
        return found

    def answer(self, method: str, path: str, body: Body | None) -> tuple[int, Any]:
        answered = super().answer(method, path, body)
        if method == "PATCH" and body is not None and answered[0] == 200:
            for name, value in body["metadata"]["annotations"].items():
                if value is None:
                    self.annotations.pop(name, None)
                else:
                    self.annotations[name] = value
            table = self.annotations.get(OVERRIDE)
            self.tables.append(table)
            reason = "AnnotationRefused" if self.refuses else "Overridden" if table else "Tuning"
            self.model["status"] = a_status(table or "*:3", reason) | {"decisions": self.decisions}
            if table:
                self.after_each_override()
        return answered


def a_status(table: str, reason: str) -> Body:
    told = {"TuningActive": reason, "ActuationConverged": "Converged"}
    return {
        "speculation": {"state": "Active", "scheduleSummary": table},
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": why,
                "message": "Write *:3.",
                "lastTransitionTime": "2026-01-01T12:00:00Z",
            }
            for kind, why in told.items()
        ],
    }
