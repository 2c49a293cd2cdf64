"""The reference controller of `go/`, on the same API server as the operator."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from outrider.api.resource import SpeculativeModel
from outrider.engine.signing import SigningKey
from outrider.plan import ControlKeys, PlanSettings, Rendered, settled
from tests.bench.scale.figures import Figures
from tests.bench.scale.operators import usage_of
from tests.bench.scale.place import a_model, a_place, writes
from tests.bench.scale.waits import until
from tests.lifecycle.api_server import running

_NAMED = {"name": "the-name", "namespace": "the-namespace", "uid": "the-uid", "generation": 1}
"""Placeholders, which the program replaces."""


def objects_of_a_model() -> str:
    """The objects that the operator makes of a model, as JSON with placeholders."""
    model = SpeculativeModel.of_stored({**a_model(0), "metadata": _NAMED})
    key = SigningKey.generate()
    rendered = Rendered(settled(model), PlanSettings())
    planned = rendered.plan(keys=ControlKeys(key.private_pem, key.public_pem))
    assert not planned.problems, planned.problems
    return json.dumps(planned.children)


def measure_reference(program: Path, models: int) -> Figures:
    """The creation of so many models. program: the built controller."""
    with tempfile.TemporaryDirectory(prefix="scale-") as name, a_place(folder := Path(name)) as place:
        (folder / "objects.json").write_text(objects_of_a_model())
        options = [f"--kubeconfig={place.server.kubeconfig('reference')}"]
        options += [f"--objects={folder / 'objects.json'}"]
        with running(str(program), options, folder / "reference.log") as process:
            began, before = time.time(), usage_of(process.pid)
            place.create_models(models)
            deployed = until("Deployments", models, place.deployments)
            ready = until("ready models", models, place.ready_models)
            ended = time.time()
            time.sleep(3)  # The API server writes the audit log in batches.
            used, requests = usage_of(process.pid), place.requests(began, ended)
            log = (folder / "reference.log").read_text().splitlines()
            print(log[0], *[line for line in log if '"level":"error"' in line][:3], sep="\n")
    print("reference, requests per model:", {k: round(v / models, 1) for k, v in requests.most_common()})
    return {
        "models": float(models),
        "reference: all Deployments, s": deployed,
        "reference: all Ready, s": None if ready is None else ended - began,
        "reference: CPU, s": used.cpu - before.cpu,
        "reference: writes per model": writes(requests) / models,
        "reference: peak of memory, MiB": used.peak,
    }
