"""The Prometheus source against a server whose authority no system knows."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.series import PodKey
from outrider.telemetry.source import SourceUnreachable
from tests.unit.telemetry.factories import a_row, a_server, an_answer, answering

OPENSSL = shutil.which("openssl")

pytestmark = pytest.mark.skipif(OPENSSL is None, reason="no openssl binary on the PATH")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate of 127.0.0.1; the key is in the same file."""
    made, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = [str(OPENSSL), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    names = ["-subj", "/CN=prometheus", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*command, *names, "-keyout", str(key), "-out", str(made)], check=True, capture_output=True
    )
    made.write_text(made.read_text() + key.read_text())
    return made


def a_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_an_authority_of_ones_own_is_trusted_where_it_is_given(certificate: Path) -> None:
    with a_server(answering(an_answer(a_row())), tls=a_context(certificate)) as url:
        source = PrometheusSource(PrometheusSettings(url=url, ca_file=certificate))
        assert PodKey("default", "a") in await source.fetch(60)


async def test_without_it_nobody_is_asked(certificate: Path) -> None:
    with (
        a_server(answering(an_answer(a_row())), tls=a_context(certificate)) as url,
        pytest.raises(SourceUnreachable, match="certificate"),
    ):
        await PrometheusSource(PrometheusSettings(url=url)).fetch(60)
