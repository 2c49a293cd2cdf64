"""Programs that a test runs, and what they print."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping


def printed(*command: str, stdin: str | None = "", environment: Mapping[str, str] | None = None) -> str:
    """What a program prints. environment: by default that of the test.

    Raises:
        AssertionError: it failed. The message is what it said.
    """
    done = subprocess.run(command, input=stdin, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()[-2000:]}"
    return done.stdout
