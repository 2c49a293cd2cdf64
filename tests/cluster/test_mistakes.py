"""Typical mistakes of a new user: each is answered at once, by words that say what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from outrider.api.reasons import DegradedReason
from outrider_protocol.releases import NEWEST_VERSION, version_text
from tests.cluster.kubectl import KubectlError, Object, apply, condition, kubectl, wait_for
from tests.cluster.models import BASE, Deploy, Manifest, deploying, model
from tests.unit.api.admission_cases import merge_patch

pytestmark = pytest.mark.engine("none", "refused")

ANSWER_SECONDS = 60
"""On a quiet machine it takes two."""

DRAFTER = {"uri": "hf://RedHatAI/Qwen3-8B-speculator.eagle3"}


@dataclass(frozen=True)
class Mistake:
    """A change of `BASE`, and what Kubernetes or Outrider says to it.

    spec: a JSON merge patch. reason: of Degraded; None where admission refuses. says: part of the message.
    """

    name: str
    says: str
    spec: Mapping[str, object]
    reason: DegradedReason | None = None

    @property
    def manifest(self) -> Manifest:
        """The object under a name of its own."""
        return merge_patch(BASE, {"metadata": {"name": f"mistake-{self.name}"}, "spec": self.spec})


REFUSED = (
    Mistake(
        "field",
        'unknown field "spec.speculation.numSpeculativeToken"',
        {"speculation": {"numSpeculativeToken": 3}},
    ),
    Mistake("no-drafter", "method eagle3 needs a drafter", {"speculation": {"method": "eagle3"}}),
    Mistake("drafter", "method ngram uses no drafter", {"speculation": {"drafter": DRAFTER}}),
    Mistake(
        "ceiling",
        "[0, 3, 5] exceeds numSpeculativeTokens, which is 3",
        {"speculation": {"candidates": [0, 3, 5]}},
    ),
    Mistake("no-zero", "[1, 3] lacks 0", {"speculation": {"candidates": [1, 3]}}),
    Mistake(
        "scheme",
        "'https://huggingface.co/Qwen/Qwen3-8B' has no scheme that Outrider knows",
        {"model": {"uri": "https://huggingface.co/Qwen/Qwen3-8B"}},
    ),
    Mistake("bare", "'Qwen/Qwen3-8B' has no scheme that Outrider knows", {"model": {"uri": "Qwen/Qwen3-8B"}}),
    Mistake("organisation", "such as hf://Qwen/Qwen3-8B", {"model": {"uri": "hf://Qwen3-8B"}}),
    Mistake("surge", "spec.rollout.maxSurge", {"rollout": {"maxSurge": -1}}),
    Mistake(
        "container",
        "the engine's container is named engine",
        {"podTemplate": {"spec": {"containers": [{"name": "engin", "env": [{"name": "A", "value": "b"}]}]}}},
    ),
)

DEGRADED = (
    Mistake(
        "pod-field",
        "nodeSelecter: field not declared in schema",
        {"podTemplate": {"spec": {"nodeSelecter": {"gpu": "h100"}}}},
        DegradedReason.APPLY_REFUSED,
    ),
    Mistake(
        "flag",
        "write --max-num-seqs without leading dashes: max-num-seqs",
        {"engine": {"args": {"--max-num-seqs": 8}}},
        DegradedReason.INVALID_SPEC,
    ),
    Mistake(
        "version",
        f"set spec.engine.version to {version_text(NEWEST_VERSION)}.0 or older",
        {"engine": {"version": "0.99.0"}},
        DegradedReason.UNSUPPORTED,
    ),
    Mistake(
        "secret",
        'secret "no-such-secret" not found',
        {"model": {"secretRef": {"name": "no-such-secret"}}},
        DegradedReason.CONTAINER_NOT_CREATED,
    ),
    Mistake(
        "key",  # the model's own Secret is there, and has no such key
        "couldn't find key no-such-key in Secret default/mistake-key-control",
        {"model": {"secretRef": {"name": "mistake-key-control", "key": "no-such-key"}}},
        DegradedReason.CONTAINER_NOT_CREATED,
    ),
    Mistake(
        "claim",
        'persistentvolumeclaim "no-such-claim" not found',
        {"model": {"uri": "pvc://no-such-claim/model"}},
        DegradedReason.VOLUME_NOT_READY,
    ),
    Mistake(
        "account",
        'serviceaccount "no-such-account" not found',
        {"podTemplate": {"spec": {"serviceAccountName": "no-such-account"}}},
        DegradedReason.PODS_NOT_CREATED,
    ),
    Mistake(
        "image",  # a closed port refuses sooner than an unknown name
        "localhost:1/no-such-image:1",
        {"engine": {"image": "localhost:1/no-such-image:1"}},
        DegradedReason.IMAGE_PULL_FAILED,
    ),
    Mistake("gpu", "Insufficient nvidia.com/gpu", {"resources": None}, DegradedReason.UNSCHEDULABLE),
)


@pytest.fixture(scope="module")
def deploy_for_all() -> Iterator[Deploy]:
    """What a test deploys stays until the last one is over, so that none waits for another's end."""
    with deploying() as deploy:
        yield deploy


@pytest.mark.parametrize("mistake", REFUSED, ids=lambda mistake: mistake.name)
def test_is_refused_at_admission(mistake: Mistake) -> None:
    with pytest.raises(KubectlError) as refused:
        apply(mistake.manifest, "--dry-run=server")
    assert mistake.says in str(refused.value)


@pytest.mark.alone("clock")
@pytest.mark.parametrize("mistake", DEGRADED, ids=lambda mistake: mistake.name)
def test_is_reported_in_status_and_by_an_event(mistake: Mistake, deploy_for_all: Deploy) -> None:
    name = f"mistake-{mistake.name}"
    deploy_for_all(mistake.manifest, name)

    seen = wait_for(
        f"Degraded with {mistake.reason}: {mistake.says}",
        lambda: model(name),
        lambda seen: said(seen, mistake),
        seconds=ANSWER_SECONDS,
    )
    assert (seen or {})["status"]["reason"] == mistake.reason
    wait_for(
        "an Event with the same words",
        lambda: {"status": notes(name)},
        lambda seen: any(mistake.says in note for note in (seen or {})["status"]),
        seconds=ANSWER_SECONDS,
    )


def said(seen: Object | None, mistake: Mistake) -> bool:
    degraded = condition(seen, "Degraded")
    return (
        degraded is not None and degraded["reason"] == mistake.reason and mistake.says in degraded["message"]
    )


def notes(name: str) -> list[str]:
    """What Events of this model say about its trouble."""
    printed = kubectl(
        "get",
        "events",
        "-n",
        "default",
        "-o",
        "json",
        "--field-selector",
        f"involvedObject.name={name},reason=Degraded",
    )
    events: list[dict[str, Any]] = json.loads(printed)["items"]
    return [str(event["message"]) for event in events]
