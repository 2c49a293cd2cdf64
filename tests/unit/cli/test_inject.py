"""`outrider inject` at the command line: the manifest on standard output, each change on standard error."""

from __future__ import annotations

from pathlib import Path

import yaml
from typer.testing import CliRunner, Result

from outrider.cli.main import app

DEPLOYMENT = "examples/from-a-deployment/deployment.yaml"
IMAGE = "registry.example.com/outrider-plugin:0.1.0"


def run(*words: str, **variables: str) -> Result:
    return CliRunner().invoke(app, ["inject", *words], env=variables)


def test_every_object_is_printed_and_every_change_named() -> None:
    done = run("-f", DEPLOYMENT, "--plugin-image", IMAGE)
    kinds = [each["kind"] for each in yaml.safe_load_all(done.stdout)]
    assert (done.exit_code, kinds) == (0, ["Deployment", "Service"])
    assert "Deployment chat, for SpeculativeModel chat:" in done.stderr
    assert "Service chat: not changed, because no pod of it runs vLLM" in done.stderr


def test_the_image_may_come_from_the_environment() -> None:
    assert IMAGE in run("-f", DEPLOYMENT, OUTRIDER_PLUGIN_IMAGE=IMAGE).stdout
    assert run("-f", DEPLOYMENT).exit_code != 0


def test_a_manifest_without_an_engine_ends_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("kind: Service\nmetadata: {name: web}\n")
    done = run("-f", str(file), "--plugin-image", IMAGE)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "name its container with --container" in done.stderr
