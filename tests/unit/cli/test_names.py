"""Names and images in options: what Kubernetes would refuse is refused in one line."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from outrider.cli.common.names import check_image, check_model_name, check_namespace
from outrider.cli.main import app

DEPLOYMENT = "examples/from-a-deployment/deployment.yaml"
IMPORT = ("import", "--", "vllm", "serve", "Qwen/Qwen3-8B")
RENDER = ("render", "examples/qwen3-8b-eagle3.yaml")
INJECT = ("inject", "-f", DEPLOYMENT)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((IMPORT[0], "-n", "Bad NS", *IMPORT[1:]), "outrider import: --namespace is Bad NS; write "),
        ((*RENDER, "-n", "Bad NS"), "outrider render: --namespace is Bad NS; write "),
        ((*INJECT, "--plugin-image", ""), "outrider inject: --plugin-image is empty; write "),
        ((*INJECT, "--plugin-image", "a b:::"), "outrider inject: --plugin-image is a b:::; write "),
        ((*INJECT, "--plugin-image", "a:1", "--name", "A"), "outrider inject: --name is A; write "),
    ],
)
def test_a_name_that_cannot_be_is_refused_before_anything_is_printed(
    words: tuple[str, ...], told: str
) -> None:
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(told)


def test_an_image_of_the_environment_is_checked_too() -> None:
    result = CliRunner().invoke(app, INJECT, env={"OUTRIDER_PLUGIN_IMAGE": "image:::"})
    assert result.exit_code == 2
    assert "--plugin-image is image:::" in result.stderr


@pytest.mark.parametrize(
    "image",
    [
        "outrider-plugin",
        "outrider/engine-cpu:dev",
        "localhost:5000/outrider-plugin:0.1.0",
        "registry.example.com/team/outrider_plugin:v0.1.0-rc1",
        f"ghcr.io/organisation/image:1@sha256:{64 * 'a'}",
    ],
)
def test_an_image_as_container_runtimes_read_it_is_taken(image: str) -> None:
    check_image("--plugin-image", image)


def test_the_longest_names_are_taken() -> None:
    check_namespace(63 * "a")
    check_model_name(52 * "a")
