"""Follow the model's status while load runs, and read acceptance from Prometheus afterwards."""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from examples.demo.arms import in_force
from examples.demo.cluster import Cluster
from examples.demo.measure import Drafts, Observed
from outrider.api.status import DecisionRecord, Status
from outrider.cluster.errors import ClusterError

PERIOD_SECONDS = 2.0
PROMETHEUS = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy"
DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"

Samples = Sequence[tuple[float, float]]
"""(unix seconds, counter), rising in time."""


@dataclass
class Watch:
    """Everything that the model's status said, in order."""

    cluster: Cluster
    name: str
    observed: list[Observed] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)

    async def run(self) -> None:
        """Look at the status every PERIOD_SECONDS until cancelled; a look that fails leaves a gap."""
        while True:
            with suppress(ClusterError):
                self.note(await self.cluster.status(self.name), time.time())
            await asyncio.sleep(PERIOD_SECONDS)

    def note(self, status: Status, now: float) -> None:
        """Keep one status; decisions that were seen before are kept once."""
        speculation = status.speculation
        self.observed.append(
            Observed(
                time=now,
                table=in_force(status),
                acceptance_rate=speculation.acceptance_rate if speculation else None,
            )
        )
        for decision in reversed(status.decisions):
            self._keep(decision)

    def _keep(self, decision: DecisionRecord) -> None:
        """A decision's gain is measured later, so the newest record of it counts."""
        for index, known in enumerate(self.decisions):
            if (known.time, known.to) == (decision.time, decision.to):
                self.decisions[index] = decision
                return
        self.decisions.append(decision)

    @property
    def last(self) -> Observed | None:
        """The newest status."""
        return self.observed[-1] if self.observed else None


async def drafts(cluster: Cluster, name: str, since: float, until: float) -> list[Drafts]:
    """What the engine pods drafted and accepted between neighbouring scrapes.

    Read through the API server's proxy to Prometheus, so that nothing needs to be forwarded.
    """
    drafted = await _counter(cluster, name, DRAFTED, since, until)
    accepted = await _counter(cluster, name, ACCEPTED, since, until)
    return differences(accepted, drafted)


def differences(accepted: Samples, drafted: Samples) -> list[Drafts]:
    """Between neighbouring common samples; spans without drafts and counter resets are left out."""
    accepted_at = dict(accepted)
    common = [(moment, accepted_at[moment], count) for moment, count in drafted if moment in accepted_at]
    return [
        Drafts((begin + end) / 2, accepted_1 - accepted_0, drafted_1 - drafted_0)
        for (begin, accepted_0, drafted_0), (end, accepted_1, drafted_1) in pairwise(common)
        if drafted_1 > drafted_0 and accepted_1 >= accepted_0
    ]


async def _counter(cluster: Cluster, name: str, metric: str, since: float, until: float) -> Samples:
    """The raw samples of a counter, of one pod (a replaced pod fails the demo anyway)."""
    selector = f'{metric}{{outrider_dev_model="{name}"}}[{round(until - since)}s]'
    query = urllib.parse.urlencode({"query": selector, "time": f"{until:.3f}"})
    answer = await cluster.get_raw(f"{PROMETHEUS}/api/v1/query?{query}")
    series = answer["data"]["result"]
    if not series:
        return []
    longest = max(series, key=lambda one: len(one["values"]))
    return [(float(moment), float(value)) for moment, value in longest["values"]]
