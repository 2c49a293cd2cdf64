"""Where the engines of a check run: a GPU, or a dry run of the same parts on a CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.contract import adaptive, asynchronous, quick_start, synthetic_sampler
from tests.contract.engine import DTYPE, IN_THE_CORE
from tests.contract.engine_process import QUIET, Start, begin, fork
from tests.gpu.budget import START_SECONDS
from tests.gpu.models import REAL, SMALL, Size


@dataclass(frozen=True, slots=True)
class Place:
    """One kind of machine.

    evidence: the word for what was measured there. spec: fields of every manifest. flags, variables: added to
    the launch that the operator renders. interpreted: V2 runs by Triton's interpreter, in launches that the
    operator renders for a GPU. side_by_side: engines that start together, also those of later parts; 0: one
    after the other. plugins: of the tests, for every engine, those on V2, and those on V1 that accept by
    chance. start_seconds, run_seconds: estimates, of the
    start of an engine and of one load on it.
    """

    name: str
    evidence: str
    size: Size
    start: Start
    start_seconds: float
    run_seconds: float
    max_num_seqs: int
    streams: tuple[int, ...]
    table_streams: tuple[int, ...]
    tokens: int
    spec: Mapping[str, object] = field(default_factory=dict)
    flags: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    interpreted: bool = False
    side_by_side: int = 0
    plugins: Sequence[str] = ()
    v2_plugins: Sequence[str] = ()
    chance_plugins: Sequence[str] = ()

    @property
    def dry(self) -> bool:
        """Figures of a dry run are not judged."""
        return self.name != GPU.name


GPU = Place(
    name="gpu",
    evidence="GPU",
    size=REAL,
    start=begin,
    start_seconds=START_SECONDS,
    run_seconds=1.5,
    max_num_seqs=128,
    streams=(1, 8, 32),
    table_streams=(1, 4, 16, 64),
    tokens=256,
    side_by_side=3,
    variables={"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"},
)
_CPU_FLAGS = ("--enforce-eager", f"--dtype={DTYPE}", "--max-model-len=512")
_CPU_VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OUTRIDER_SWEEP_SECONDS": "4",
    **IN_THE_CORE,
    **QUIET,
}
_NO_GPU: Mapping[str, object] = {"resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}
CPU = Place(
    name="cpu",
    evidence="CPU",
    size=SMALL,
    start=fork,
    start_seconds=10.0,
    run_seconds=0.4,
    max_num_seqs=16,
    streams=(1, 4),
    table_streams=(1, 4),
    tokens=24,
    spec=_NO_GPU,
    flags=_CPU_FLAGS,
    variables=_CPU_VARIABLES,
    plugins=(quick_start.NAME,),
    chance_plugins=(synthetic_sampler.NAME,),
)
INTERPRETED = replace(
    CPU,
    name="interpreted",
    evidence="CPU, interpreted",
    start_seconds=15.0,
    run_seconds=3.0,
    streams=(1, 2),
    table_streams=(1, 2),
    tokens=12,
    spec={},
    interpreted=True,
    v2_plugins=(adaptive.NAME, asynchronous.NAME),
)

PLACES: Mapping[str, Place] = {place.name: place for place in (GPU, CPU, INTERPRETED)}
