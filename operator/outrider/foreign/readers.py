"""The registry: each reader of foreign input, the largest input that it admits, and what that may cost."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader.

    name: what is read. most_bytes: of its text; of an object that arrives parsed, characters of its texts and
    keys. most_values: objects, lists, texts, numbers, booleans and nulls together. deepest: levels of objects
    and lists. cpu_seconds: the most that one input may cost. peak_bytes: likewise, beyond the input itself.
    """

    name: str
    most_bytes: int
    most_values: int
    deepest: int
    cpu_seconds: float
    peak_bytes: int


ENGINE_STATE = Reader("the state of an engine", 64 * KIB, 8_192, 16, 0.1, 4 * MIB)
"""512 step times of five numbers are 3,072 values and some 50 kB."""
ENGINE_REFUSAL = Reader("the refusal of an engine", 64 * KIB, 256, 16, 0.05, 4 * MIB)

# These include what the store does with the whole object, of up to 1.4 MB: it packs it.
SPEC = Reader("the spec of a SpeculativeModel", 384 * KIB, 12_000, 10_000, 1.5, 20 * MIB)
ENGINE_ARGS = Reader("spec.engine.args", 64 * KIB, 4_096, 18, 1.5, 16 * MIB)
"""Linux gives a program no argument of more than 128 KiB. Objects in flags have some four levels."""
SPECULATION_CONFIG = Reader("spec.speculation.config", 16 * KIB, 1_024, 32, 1.5, 16 * MIB)
POD_TEMPLATE = Reader("spec.podTemplate.spec", 256 * KIB, 6_000, 32, 1.5, 16 * MIB)
STATUS = Reader("the status of a SpeculativeModel", 128 * KIB, 4_096, 16, 1.5, 16 * MIB)

NODE_SELECTOR = Reader("labels of nodes that a pod template selects", 256 * KIB, 6_000, 32, 0.3, 8 * MIB)

TABLE = Reader("a table or launch in one line, of an annotation or ConfigMap", 4 * KIB, 64, 1, 0.02, 4 * MIB)
TABLE_FILE = Reader("the table in ConfigMap <model>-schedule", 16 * KIB, 256, 4, 0.02, 4 * MIB)
ROLLOUT_MEMORY = Reader("what a Deployment remembers of rollouts", 16 * KIB, 64, 4, 0.02, 4 * MIB)
TUNER_STATE = Reader("the knowledge in ConfigMap <model>-tuner", 64 * KIB, 12_000, 32, 0.2, 16 * MIB)

LAST_WORDS = Reader("the last words of a container", 4 * KIB, 256, 16, 0.02, 4 * MIB)
"""Kubernetes keeps 4 KiB of a termination message."""
WEIGHTS_RESULT = Reader("the result of a download", 4 * KIB, 256, 16, 0.02, 4 * MIB)
DOWNLOAD_PROGRESS = Reader("the progress of a download", 4 * KIB, 256, 16, 0.02, 4 * MIB)

METRICS_PAGE = Reader("the metrics page of an engine", 4 * MIB, 10_000, 1, 2.0, 40 * MIB)
"""Values are series, of 1 MiB of text together. It is read beside the event loop."""

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
)
"""All of them. A test fails where one has no case of its most expensive input."""
