"""Registry of the readers of foreign input, with the limits and the maximum cost of each."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Reader:
    """Limits of one reader.

    name: the input, for messages.
    most_bytes: of the text; for a parsed object, characters of its texts and keys.
    most_values: objects, lists, texts, numbers, booleans and nulls together.
    deepest: levels of objects and lists.
    cpu_seconds: maximum CPU time of one input.
    peak_bytes: maximum memory of one input, in addition to the input itself.
    """

    name: str
    most_bytes: int
    most_values: int
    deepest: int
    cpu_seconds: float
    peak_bytes: int


ENGINE_STATE = Reader("the state of an engine", 64 * KIB, 8_192, 16, 0.1, 4 * MIB)
"""512 step times of five numbers are 3,072 values and about 50 kB."""
ENGINE_REFUSAL = Reader("the refusal of an engine", 64 * KIB, 256, 16, 0.05, 4 * MIB)

# The costs include packing of the whole object, of up to 1.4 MB, by the store.
SPEC = Reader("the spec of a SpeculativeModel", 384 * KIB, 12_000, 10_000, 1.5, 20 * MIB)
ENGINE_ARGS = Reader("spec.engine.args", 64 * KIB, 4_096, 18, 1.5, 16 * MIB)
"""Linux limits an argument of a program to 128 KiB. Objects in flags have about four levels."""
SPECULATION_CONFIG = Reader("spec.speculation.config", 16 * KIB, 1_024, 32, 1.5, 16 * MIB)
POD_TEMPLATE = Reader("spec.podTemplate.spec", 256 * KIB, 6_000, 32, 1.5, 16 * MIB)
STATUS = Reader("the status of a SpeculativeModel", 128 * KIB, 4_096, 16, 1.5, 16 * MIB)

NODE_SELECTOR = Reader("the node labels that a pod template selects", 256 * KIB, 6_000, 32, 0.3, 8 * MIB)

TABLE = Reader(
    "a schedule or launch in one line of an annotation or ConfigMap", 4 * KIB, 64, 1, 0.02, 4 * MIB
)
TABLE_FILE = Reader("the schedule in ConfigMap <model>-schedule", 16 * KIB, 256, 4, 0.02, 4 * MIB)
ROLLOUT_MEMORY = Reader("the record of rollouts in a Deployment", 16 * KIB, 64, 4, 0.02, 4 * MIB)
TUNER_STATE = Reader("the tuner state in ConfigMap <model>-tuner", 64 * KIB, 12_000, 32, 0.2, 16 * MIB)

LAST_WORDS = Reader("the termination message of a container", 4 * KIB, 256, 16, 0.02, 4 * MIB)
"""Kubernetes stores up to 4 KiB of a termination message."""
WEIGHTS_RESULT = Reader("the result of a download", 4 * KIB, 256, 16, 0.02, 4 * MIB)
DOWNLOAD_PROGRESS = Reader("the progress of a download", 4 * KIB, 256, 16, 0.02, 4 * MIB)

METRICS_PAGE = Reader("the metrics page of an engine", 4 * MIB, 10_000, 1, 2.0, 40 * MIB)
"""Values are series, with 1 MiB of text together. A thread parses them, not the event loop."""

IMPORTED = Reader("a file of `outrider import`", 128 * KIB, 6_000, 64, 6.0, 64 * MIB)
"""A person waits for it, in a process of its own. PyYAML is slow."""

READERS: tuple[Reader, ...] = (
    ENGINE_STATE,
    ENGINE_REFUSAL,
    SPEC,
    ENGINE_ARGS,
    SPECULATION_CONFIG,
    POD_TEMPLATE,
    NODE_SELECTOR,
    STATUS,
    TABLE,
    TABLE_FILE,
    ROLLOUT_MEMORY,
    TUNER_STATE,
    LAST_WORDS,
    WEIGHTS_RESULT,
    DOWNLOAD_PROGRESS,
    METRICS_PAGE,
    IMPORTED,
)
"""All readers. A test fails if one lacks a case of its most expensive input."""
