"""A Prometheus that knows label matchers, and pods with more series than is good for anybody."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from outrider.telemetry.series import PodKey
from tests.unit.telemetry.factories import a_row, an_answer, answering

_MATCHER = re.compile(r'(namespace|pod)(=~|!~|!=|=)("(?:[^"\\]|\\.)*")')


def selects(query: str, pod: PodKey) -> bool:
    """Whether the matchers on `namespace` and `pod` take it, as Prometheus' anchored expressions do."""
    for label, operator, quoted in _MATCHER.findall(query):
        value, wanted = getattr(pod, label), json.loads(quoted)
        found = value == wanted if operator in ("=", "!=") else re.fullmatch(wanted, value) is not None
        if found == operator.startswith("!"):
            return False
    return True


@dataclass
class FleetServer:
    """rows: how many each pod has in an answer. series: how many Prometheus counts, if not as many."""

    rows: dict[PodKey, int]
    series: dict[PodKey, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def models(self) -> Mapping[PodKey, str]:
        """Every pod, each of the same model of its namespace."""
        return dict.fromkeys(self.rows, "m")

    @property
    def counted(self) -> int:
        return sum(query.startswith("count") for query in self.asked)

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        query = parse_qs(urlsplit(request.path).query)["query"][0]
        self.asked.append(query)
        if query.startswith("count by (namespace, pod) ("):
            answering(an_answer(*(self._count(pod) for pod in self.rows if selects(query, pod))))(request)
            return
        taken = [pod for pod in self.rows if selects(query, pod)]
        answering(an_answer(*(row for pod in taken for row in self._rows(pod))))(request)

    def _rows(self, pod: PodKey) -> list[dict[str, object]]:
        return [a_row(pod=pod.pod, namespace=pod.namespace)] * self.rows[pod]

    def _count(self, pod: PodKey) -> dict[str, object]:
        number = self.series.get(pod, self.rows[pod])
        return {"metric": {"namespace": pod.namespace, "pod": pod.pod}, "value": [1.0, str(number)]}
