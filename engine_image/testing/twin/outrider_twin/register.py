"""Entry point of the group ``vllm.platform_plugins``: whether this engine is simulated.

Imports nothing of vLLM. vLLM asks before it has a platform, and ignores all errors here.
"""

from __future__ import annotations

import os

from outrider_twin.settings import VARIABLE


def register() -> str | None:
    """The platform's class where the variable is set; None leaves vLLM as it is."""
    return "outrider_twin.platform.TwinPlatform" if os.environ.get(VARIABLE) else None
