"""The oldest Kubernetes that the chart takes: its API server has the definition, its rules and the objects.

Rules of a definition are programs in CEL, and each release of Kubernetes brings functions that those before
it lack.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator

import pytest
import yaml

from tests.lifecycle.api_server import ApiServer, an_api_server
from tests.lifecycle.operators import the_operator_of
from tests.lifecycle.releases import CHART, CRD, Helm
from tests.lifecycle.stored_models import a_model, eventually, is_taken
from tests.unit.api.admission_cases import CASES, AdmissionCase

HOME = "outrider-system"
EVERYTHING = {"admissionPolicy": {"enabled": True, "podLabels": ["team"]}, "networkPolicy": {"enabled": True}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """With a release, and the operator with the rights of its account."""
    program, helm = os.environ.get("OUTRIDER_OLDEST_API_SERVER"), shutil.which("helm")
    if program is None or helm is None:
        pytest.fail("the oldest API server is not here, or no Helm: run `make test-lifecycle`")
    with an_api_server(tmp_path_factory.mktemp("api-server"), program) as found:
        Helm(helm, HOME, found.environment).deploy(CHART, EVERYTHING)
        found.until_established(CRD)
        eventually("objects are taken", lambda: is_taken(found, a_model()))
        with the_operator_of(found, HOME):
            yield found


def test_it_is_the_one_that_the_chart_names(server: ApiServer) -> None:
    told = json.loads(server.kubectl("version", "-o", "json"))["serverVersion"]
    least = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    assert re.match(r">=\s*(\d+\.\d+)", least)[1] == f"{told['major']}.{told['minor']}"  # type: ignore[index]


def test_a_model_becomes_a_deployment_and_has_a_status(server: ApiServer) -> None:
    eventually("its Deployment", lambda: server.get("deployment", "m") is not None)
    eventually("its status", lambda: bool((server.get("speculativemodel", "m") or {}).get("status")))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_admits_and_refuses_what_the_newest_does(server: ApiServer, case: AdmissionCase) -> None:
    """`tests/cluster/test_bad_input.py` has the newest."""
    if case.refused is None:
        server.apply(case.manifest, "--dry-run=server")
        return
    with pytest.raises(AssertionError) as refused:
        server.apply(case.manifest, "--dry-run=server")
    assert case.refused in str(refused.value)
