"""The engines whose command lines Outrider reads: their releases, and their flags as fields of the spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from outrider.api.engines import RuntimeKind
from outrider.api.json_object import Json
from outrider.importing import sglang_speculation, speculation
from outrider.importing.findings import Findings
from outrider.importing.flags import Flags
from outrider_protocol import releases, sglang_releases


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReader:
    """What reading a command line of one engine needs."""

    kind: RuntimeKind
    default: str
    """The release where the source names none."""
    serves: Callable[[str], bool]
    """Whether Outrider serves a release."""
    span: str
    """The releases that it serves, for messages."""
    takes_config: Callable[[Flags, Findings], Json | None]
    """Takes the flags of speculation out of all flags; its result has the keys of vLLM's configuration."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Flag -> the flag of vLLM that sets the same field of the spec."""

    def common(self, flags: Flags) -> Flags:
        """The flags, with those of fields under one name for all engines."""
        return {self.fields.get(name, name): value for name, value in flags.items()}


def _serves_vllm(version: str) -> bool:
    return releases.OLDEST_VERSION <= releases.parse_version(version) <= releases.NEWEST_VERSION


def _serves_sglang(version: str) -> bool:
    first, last = (sglang_releases.parse_release(sglang_releases.RELEASES[end]) for end in (0, -1))
    return first <= sglang_releases.parse_release(version) <= last


READERS: Mapping[RuntimeKind, EngineReader] = {
    RuntimeKind.VLLM: EngineReader(
        kind=RuntimeKind.VLLM,
        default=releases.DEFAULT_RELEASE,
        serves=_serves_vllm,
        span=" to ".join(map(releases.version_text, (releases.OLDEST_VERSION, releases.NEWEST_VERSION))),
        takes_config=speculation.take_config,
    ),
    RuntimeKind.SGLANG: EngineReader(
        kind=RuntimeKind.SGLANG,
        default=sglang_releases.DEFAULT_RELEASE,
        serves=_serves_sglang,
        span=f"{sglang_releases.RELEASES[0]} to {sglang_releases.RELEASES[-1]}",
        takes_config=sglang_speculation.take_config,
        fields={
            "model-path": "model",
            "context-length": "max-model-len",
            **dict.fromkeys(("tp-size", "tp"), "tensor-parallel-size"),
            **dict.fromkeys(("pp-size", "pp"), "pipeline-parallel-size"),
            **dict.fromkeys(("dp-size", "dp"), "data-parallel-size"),
        },
    ),
}


def reader_of_image(image: str | None) -> EngineReader:
    """The engine of an image whose own program starts it, by its name."""
    sglang = image is not None and "sglang" in image.lower()
    return READERS[RuntimeKind.SGLANG if sglang else RuntimeKind.VLLM]
