"""Known defects of vLLM's releases with speculation, as data.

Outrider refuses launches that end the engine or falsify answers. Status, ``outrider plan`` and
``outrider doctor`` name the others; the runbook and the page of versions list all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.runtimes.flag_values import canonical
from outrider.runtimes.resources import uses_gpu
from outrider.runtimes.vllm.architectures import V2_ALONE, DraftLayout, draft_layout, recurrent
from outrider.runtimes.vllm.kv_transfer import transfer
from outrider.runtimes.vllm.methods import ENGINE_METHODS
from outrider.runtimes.vllm.runner import TablePlace, launch_form
from outrider_protocol.methods import TRAITS, Method
from outrider_protocol.releases import (
    NEWEST_VERSION,
    RECURRENT_STATES_RIGHT,
    Runner,
    Version,
    parse_version,
    version_text,
)


class Severity(StrEnum):
    """What Outrider does about a launch that meets a defect."""

    REFUSED = "refused"
    """No pod is made."""
    ADVISED = "advised"
    """It is launched, and its status says so."""
    LISTED = "listed"
    """It is launched. Only a symptom shows whether it meets the defect, so the runbook has it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What decides whether a launch meets a defect."""

    spec: Spec
    weights: WeightsStatus | None

    @property
    def method(self) -> Method:
        """How it drafts."""
        return self.spec.speculation.method

    @property
    def runner(self) -> Runner | None:
        """What vLLM is given; None: it chooses."""
        return launch_form(self.spec, stock=False).runner

    @property
    def drafts_nothing_at_times(self) -> bool:
        """Some of its steps have no drafts, and follow steps that had."""
        zero = 0 in {*self.spec.candidates(), *self.spec.static_schedule().values()}
        return zero or TRAITS[self.method].searches_text

    def sets(self, *flags: str) -> bool:
        """Whether ``spec.engine.args`` has one of these flags, or a part of it, and not as false."""
        args = self.spec.engine.args
        return any(
            value is not False and canonical(name).partition(".")[0] in flags for name, value in args.items()
        )


@dataclass(frozen=True, slots=True)
class KnownDefect:
    """One defect of a range of releases."""

    name: str
    what: str
    """What happens."""
    remedy: str
    """What to do."""
    upstream: tuple[int, ...]
    """Numbers of vLLM's issues and pull requests; empty: read in its source."""
    severity: Severity
    when: str
    """The launches that meet it, in words."""
    meets: Callable[[Launch], bool | None]
    """Whether a launch of this method meets it; None where nothing says so."""
    since: Version
    until: Version | None = None
    """The first version that is known to have it mended; None: none is."""
    methods: Collection[Method] | None = None
    """None: every method that drafts."""

    def of(self, launch: Launch) -> bool | None:
        """Whether a launch meets it; None where nothing says so."""
        version = parse_version(launch.spec.engine.version)
        mended = self.until is not None and version >= self.until
        drafts = launch.method is not Method.NONE and (self.methods is None or launch.method in self.methods)
        return self.meets(launch) if drafts and version >= self.since and not mended else False

    @property
    def releases(self) -> str:
        """Such as ``0.26 to 0.31``."""
        major, minor = NEWEST_VERSION if self.until is None else self.until
        last = (major, minor) if self.until is None else (major, minor - 1)
        first, end = version_text(self.since), version_text(last)
        return first if first == end else f"{first} to {end}"

    @property
    def numbers(self) -> str:
        """Such as ``vllm#44740, vllm#57475``."""
        return ", ".join(f"vllm#{number}" for number in self.upstream)

    def phrase(self, *, certain: bool = True) -> str:
        """One sentence, without an end mark."""
        source = f" ({self.numbers})" if self.upstream else ""
        what = self.what if certain else f"if {self.when}: {self.what}"
        return f"{what}{source}; {self.remedy}"


def _stages_on_v1(launch: Launch) -> bool:
    return launch.spec.parallelism.pipeline > 1 and launch.runner is Runner.V1


def _v2_alone_on_v1(launch: Launch) -> bool | None:
    if launch.runner is not Runner.V1:
        return False
    layout = draft_layout(launch.spec, launch.weights)
    return None if layout is DraftLayout.UNKNOWN else layout in V2_ALONE


def _stateful_steps_without_drafts(launch: Launch) -> bool | None:
    return recurrent(launch.spec, launch.weights) if launch.drafts_nothing_at_times else False


def _structured(launch: Launch) -> bool:
    return launch.sets(
        "tool-call-parser",
        "enable-auto-tool-choice",
        "structured-outputs-config",
        "guided-decoding-backend",
        "reasoning-parser",
    )


def _short_lookups_with_tools(launch: Launch) -> bool:
    given = launch.spec.speculation.config
    # vLLM takes the other half of a pair of which one is given.
    said = given.get("prompt_lookup_min", given.get("prompt_lookup_max"))
    least = ENGINE_METHODS[launch.method].config.get("prompt_lookup_min") if said is None else said
    return isinstance(least, int) and least < _SAFE_LOOKUP and _structured(launch)


def _piecewise_zero(launch: Launch) -> bool:
    spec = launch.spec
    form = launch_form(spec, stock=spec.speculation.tuning.actuation == "Rollout")
    on_v1 = spec.live and form.runner is Runner.V1 and uses_gpu(spec)
    kept = spec.speculation.tuning.mode == "Off" or form.table is TablePlace.FLAGS
    return on_v1 and kept and 0 in spec.static_schedule().values()


def _cut_context(launch: Launch) -> bool | None:
    """Heads other than of MTP share the target's positions, unless their own config.json has fewer."""
    spec, weights = launch.spec, launch.weights
    if launch.runner is Runner.V1 or spec.speculation.drafter is None or not uses_gpu(spec):
        return False
    target = None if weights is None else weights.model
    drafter = None if weights is None else weights.drafter
    said = spec.model.max_length
    longest = said if isinstance(said, int) else None if target is None else target.longest_context
    drafted = None if drafter is None else drafter.longest_context
    return None if longest is None or drafted is None else drafted < longest


def _between_engines(launch: Launch) -> bool:
    try:
        found = transfer(launch.spec)
    except ValueError:
        return False
    return found is not None and found.between_engines and not TRAITS[launch.method].searches_text


_SAFE_LOOKUP = 8
_RELAYS = (Method.EAGLE3, Method.DSPARK)

KNOWN_DEFECTS: tuple[KnownDefect, ...] = (
    KnownDefect(
        "recurrent-state",
        "answers are silently wrong: after accepted drafts, a step without drafts reads a stale state of the "
        "recurrent layers. K=0 makes such steps, and so do n-gram and suffix without a match. Recurrent are "
        "Qwen3-Next, Qwen3.5 to 3.8, Nemotron-H, Kimi-Linear, Jamba, Mamba, LFM2, Granite 4 H, Falcon-H1, "
        "MiniMax-Text-01",
        "set spec.engine.version: 0.32.0 or newer. Or set tuning.mode: Off, remove 0 from candidates and "
        "schedule, and use a method that drafts in every step",
        (39273, 40875, 52942, 56531),
        Severity.REFUSED,
        "the target has recurrent layers and some steps have no drafts",
        _stateful_steps_without_drafts,
        since=(0, 26),
        until=RECURRENT_STATES_RIGHT,
    ),
    KnownDefect(
        "stages-on-v1",
        "K of this method changes on the V1 runner, and the engine ends at its first step. V1 reads the "
        "drafter on pipeline stages without one",
        "set spec.parallelism.pipeline: 1, or one value in spec.speculation.candidates with "
        "tuning.mode: Off. For mtp and eagle3 on GPUs, set spec.engine.version: 0.32.0 or newer: it uses V2",
        (30436, 44697, 49355),
        Severity.REFUSED,
        "parallelism.pipeline is above 1 and K is changed on the V1 runner",
        _stages_on_v1,
        since=(0, 26),
    ),
    KnownDefect(
        "head-of-v2",
        "V1 refuses DFlash2 and LiLiCorr heads, and heads that mix sliding and full attention, or drafts "
        "wrongly with them",
        "set spec.engine.modelRunner: Auto, with which vLLM uses V2",
        (),
        Severity.REFUSED,
        "modelRunner is V1 and the head is of such a kind",
        _v2_alone_on_v1,
        since=(0, 26),
        methods=(Method.DFLASH,),
    ),
    KnownDefect(
        "relayed-states",
        "the engine ends at its start if the target does not pass hidden states from stage to stage. Llama, "
        "Qwen2, dense Qwen3, MiniMax-M3, DeepSeek-V4 and Kimi-K3 pass them",
        "if it ends so, set method mtp or spec.parallelism.pipeline: 1",
        (50098, 55623),
        Severity.ADVISED,
        "parallelism.pipeline is above 1 with eagle3 or dspark",
        lambda launch: launch.spec.parallelism.pipeline > 1,
        since=(0, 30),
        methods=_RELAYS,
    ),
    KnownDefect(
        "grammar-after-reasoning",
        "structured answers and tool calls break if reasoning ends within a draft: invalid JSON, requests "
        "with status 500, or an engine that ends",
        "set spec.engine.version: 0.27.0 or newer, or method none for such traffic",
        (44993, 46118, 46249),
        Severity.ADVISED,
        "requests ask for structured output or tools",
        _structured,
        since=(0, 26),
        until=(0, 27),
    ),
    KnownDefect(
        "grammar-with-drafts",
        "drafts that continue after the end of the grammar: users report requests with status 500, or an "
        "engine that ends",
        "if you see it, stop drafting with the annotation outrider.dev/schedule-override: '*:0', and set "
        "method none for such traffic",
        (46118, 51660, 52767),
        Severity.LISTED,
        "requests ask for structured output or tools",
        _structured,
        since=(0, 27),
        methods=(Method.MTP, Method.EAGLE3, Method.DSPARK),
    ),
    KnownDefect(
        "short-lookups",
        "tool calls are garbled: with prompt_lookup_min: 2, Outrider's default, n-gram copies fragments of "
        "the tools' description",
        "set prompt_lookup_min: 8 and prompt_lookup_max: 8 or more in spec.speculation.config",
        (40875, 56077),
        Severity.ADVISED,
        f"requests use tools and prompt_lookup_min is below {_SAFE_LOOKUP}",
        _short_lookups_with_tools,
        since=(0, 26),
        methods=(Method.NGRAM,),
    ),
    KnownDefect(
        "adapters",
        "with LoRA adapters, users report answers that differ from those without drafts, and an engine that "
        "ends with n-gram",
        "compare with `outrider verify` before you rely on it, or set method none",
        (20284, 26679),
        Severity.ADVISED,
        "the spec has loraAdapters, or engine.args has enable-lora",
        lambda launch: bool(launch.spec.engine.lora_adapters) or launch.sets("enable-lora", "lora-modules"),
        since=(0, 26),
    ),
    KnownDefect(
        "memory-of-graphs",
        "the engine runs out of memory during the capture of CUDA graphs: vLLM reserves too little, and "
        "every candidate adds graphs",
        "lower engine.args gpu-memory-utilization by 0.02 to 0.05, or set fewer candidates",
        (44740, 57475),
        Severity.LISTED,
        "the engine runs on GPUs and captures graphs",
        lambda launch: uses_gpu(launch.spec) and not launch.sets("enforce-eager"),
        since=(0, 26),
    ),
    KnownDefect(
        "piecewise-zero",
        "on V1 with piecewise graphs, users report a tenth to two thirds of a fixed K's throughput for batch "
        "sizes with K=0. The tuner does not change this schedule",
        "set tuning.mode: Auto, which measures it, or remove 0 from schedule",
        (49548,),
        Severity.ADVISED,
        "the schedule on V1 is fixed and has K=0",
        _piecewise_zero,
        since=(0, 26),
    ),
    KnownDefect(
        "transferred-cache",
        "users report decode engines that accept fewer drafts, or end. The prefill engine had other "
        "speculation, or the connector did not move the drafter's part of the cache",
        "set the same speculation on both sides, name the other side in spec.engine.kvTransferPeer, and "
        "watch the condition DrafterHealthy",
        (49230, 54926),
        Severity.ADVISED,
        "kv-transfer-config names a connector between engines, and the drafter has weights",
        _between_engines,
        since=(0, 26),
    ),
    KnownDefect(
        "cut-context",
        "on V2 the engine's context shrinks to the drafter's, so it refuses longer requests",
        "use a drafter of the same context, set spec.engine.modelRunner: V1, or use vLLM 0.32.0",
        (),
        Severity.ADVISED,
        "the drafter was made for a shorter context than the model's",
        _cut_context,
        since=(0, 33),
        methods=(Method.DRAFT_MODEL, Method.EAGLE, Method.EAGLE3, Method.DFLASH, Method.DSPARK),
    ),
)


def refusal(spec: Spec, weights: WeightsStatus | None) -> str | None:
    """Why no pod is made of this launch; None where nothing known ends it or falsifies its answers."""
    met = met_by(spec, weights, Severity.REFUSED)
    return next(
        (f"vLLM {spec.engine.version}: {defect.phrase()}" for defect, certain in met if certain), None
    )


def advice(spec: Spec, weights: WeightsStatus | None) -> tuple[str, ...]:
    """What is known of this launch and does not keep it from being made, one sentence each.

    A defect that would be refused has its condition in the sentence, if it is unknown whether it is met.
    """
    refused = ((defect, sure) for defect, sure in met_by(spec, weights, Severity.REFUSED) if not sure)
    advised = ((defect, sure) for defect, sure in met_by(spec, weights, Severity.ADVISED) if sure)
    return tuple(
        f"vLLM {spec.engine.version}: {defect.phrase(certain=sure)}" for defect, sure in (*refused, *advised)
    )


def met_by(
    spec: Spec, weights: WeightsStatus | None, *severities: Severity
) -> Iterator[tuple[KnownDefect, bool]]:
    """The defects of these severities, and whether it is certain that the launch meets them."""
    launch = Launch(spec, weights)
    for defect in KNOWN_DEFECTS:
        met = defect.of(launch) if defect.severity in severities else False
        if met is not False:
            yield defect, met is True
