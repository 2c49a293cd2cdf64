"""``spec.speculation``: what the speculative configuration of the source says, or a first choice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter, ValidationError

from outrider.api.drafting import MAX_K, default_candidates
from outrider.api.engine_args import Scalar
from outrider.api.engines import ADMISSIONS, RuntimeKind
from outrider.api.json_object import Json
from outrider.api.mistakes import validation_message
from outrider.api.speculation_fields import Verification
from outrider.api.speculative_config import OWNED_KEYS, SpeculativeConfig
from outrider.api.text import in_one_line, shortened
from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.flags import Flags
from outrider.importing.speculative_keys import KNOWN_KEYS
from outrider.importing.variables import without_value
from outrider.importing.weights import Mount, place_of
from outrider.importing.workload import whole
from outrider.sizing.models import KNOWN_MODELS
from outrider_protocol.methods import (
    TRAITS,
    Drafter,
    Kind,
    Method,
    Tunability,
    method_named,
    method_of_drafter,
)
from outrider_protocol.releases import (
    ADAPTIVE_SINCE,
    ADAPTIVE_VERIFICATION,
    NEWEST_VERSION,
    OLDEST_VERSION,
    version_text,
)

_CONFIG: TypeAdapter[dict[str, Scalar | list[Scalar]]] = TypeAdapter(SpeculativeConfig)
FIRST_K = 3
"""Draft length where the source names none. vLLM's rule of thumb is 3 to 5."""
_CANDIDATES = 8
_EXAMPLE = '{"method": "ngram", "num_speculative_tokens": 3}'
_NOT_LAUNCHED = "Outrider does not launch the speculation of the source"
_LONGEST_REASON = 120
TABLE = "num_speculative_tokens_per_batch_size"

SPECULATIVE_FLAG = "speculative-config"
ONE_BY_ONE: Mapping[str, str] = {
    "spec-method": "method",
    "spec-model": "model",
    "spec-tokens": "num_speculative_tokens",
    # Of older releases, which had no --speculative-config.
    "speculative-model": "model",
    "num-speculative-tokens": "num_speculative_tokens",
    "speculative-draft-tensor-parallel-size": "draft_tensor_parallel_size",
    "speculative-model-quantization": "quantization",
    "speculative-max-model-len": "max_model_len",
    "ngram-prompt-lookup-max": "prompt_lookup_max",
    "ngram-prompt-lookup-min": "prompt_lookup_min",
}
"""Flag -> key of vLLM's speculative configuration."""


@dataclass(frozen=True, slots=True)
class Target:
    """What decides which methods the engine can run."""

    uri: str
    pipeline: int
    data: int
    pools: bool
    kind: RuntimeKind = RuntimeKind.VLLM


@dataclass(frozen=True, slots=True)
class Speculating:
    """``spec.speculation``, and the comments that stand above it."""

    wanted: Json
    comments: tuple[str, ...] = ()
    mount: Mount | None = None  # of a drafter that lies on a claim


def take_config(flags: Flags, findings: Findings) -> Json | None:
    """Take every flag of speculation out of ``flags``: vLLM's speculative configuration, None without one.

    It is empty where the source drafts, and does not say with what.

    Raises:
        ImportRefused: the configuration cannot be read.
    """
    config: Json = {}
    for flag in [name for name in flags if name.partition(".")[0] == SPECULATIVE_FLAG]:
        value, path = flags.pop(flag), flag.partition(".")[2]
        if path:
            config[path] = value
        elif isinstance(value, dict):
            config |= value
        else:
            why = without_value(value) or "it is not a JSON object"
            raise ImportRefused(f"--{SPECULATIVE_FLAG}: {why}; write an object, such as {_EXAMPLE}")
    for flag, key in ONE_BY_ONE.items():
        if flag in flags:
            config[key] = flags.pop(flag)
    if config and config.get("model") is None and config.get("method") is None:
        findings.dropped(
            "--speculative-config", "it names neither a method nor a drafter; set spec.speculation.method"
        )
        return {}
    return config or None


def speculation(config: Json | None, target: Target, mounts: list[Mount], findings: Findings) -> Speculating:
    """``spec.speculation`` of a source.

    config: None where it drafts nothing, empty where Outrider does not launch what it drafts with.
    """
    if target.pools:
        return Speculating(
            {"method": str(Method.NONE)},
            ("The model generates no tokens, so there is nothing to draft.",),
        )
    if config is None:
        return _first_choice(target, "The source drafts nothing.")
    if not config:
        return _first_choice(target, f"{_NOT_LAUNCHED}.")
    try:
        return _of_config(config, target, mounts, findings)
    except ImportRefused as refused:
        findings.dropped("--speculative-config", str(refused))
        reason = shortened(in_one_line(str(refused).partition("; ")[0]), _LONGEST_REASON)
        return _first_choice(target, f"{_NOT_LAUNCHED}: {reason}.")


def for_batches(wanted: Json, largest: int | None) -> Json:
    """With no more candidates than an engine has batch sizes. largest: its largest batch, if known."""
    length = whole(wanted.get("numSpeculativeTokens"))
    if largest is None or largest > _CANDIDATES or length is None or wanted["method"] == str(Method.SUFFIX):
        return wanted
    if TRAITS[Method(str(wanted["method"]))].tunability is not Tunability.LIVE:
        return wanted
    if largest == 1:
        fixed: Json = {
            "candidates": [length],
            "schedule": [{"numSpeculativeTokens": length}],
            "tuning": {"mode": "Off"},
        }
        return {**wanted, **fixed}
    given = wanted.get("candidates")
    ks = given if isinstance(given, list) else list(default_candidates(Method(str(wanted["method"])), length))
    if len(ks) <= largest:
        return wanted
    open_row: list[JsonValue] = [{"numSpeculativeTokens": length}]
    return {**wanted, "candidates": [0, length], "schedule": open_row}


def _first_choice(target: Target, why: str) -> Speculating:
    """What Outrider starts with. why: no configuration of the source is in its place, as a sentence."""
    known = next((each for each in KNOWN_MODELS if each.uri == target.uri), None)
    head = None if known is None else known.drafter_uri
    if target.data > 1 or (target.pipeline > 1 and head is None):
        several = "data-parallel ranks" if target.data > 1 else "pipeline stages"
        return Speculating(
            {"method": str(Method.NONE)},
            (f"{why} With {several} Outrider chooses no drafter: set method and drafter to draft.",),
        )
    if head is not None:
        return Speculating(
            {"method": str(Method.EAGLE3), "drafter": {"uri": head}, "numSpeculativeTokens": FIRST_K},
            (
                f"{why} Outrider chose the EAGLE-3 head that is published for this model.",
                "Without weights for a drafter: method: ngram, and no drafter.",
            ),
        )
    if Method.NGRAM in ADMISSIONS[target.kind].relaunched:
        return Speculating(
            {"method": str(Method.NONE)},
            (f"{why} To draft, set method and drafter, such as eagle3 with a head of this model.",),
        )
    return Speculating(
        {"method": str(Method.NGRAM), "numSpeculativeTokens": FIRST_K},
        (
            f"{why} Outrider chose n-gram, without a drafter. It suits answers that repeat their prompt.",
            "With a drafter that was trained for this model:",
            "  method: eagle3",
            "  drafter: {uri: hf://ORGANISATION/NAME}",
        ),
    )


def _of_config(config: Json, target: Target, mounts: list[Mount], findings: Findings) -> Speculating:
    method = _method(config)
    traits = TRAITS[method]
    admission = ADMISSIONS[target.kind]
    if traits.tunability is Tunability.REFUSED or method not in admission.methods:
        raise ImportRefused(f"method {method} is not available; choose another method")
    wanted: Json = {"method": str(method)}
    mount = None
    model = config.get("model")
    if isinstance(model, str) and traits.drafter is not Drafter.FORBIDDEN:
        place = place_of(model, mounts)
        mount = place.mount
        wanted["drafter"] = _drafter(config, place.uri, place.revision, findings)
    elif traits.drafter is Drafter.REQUIRED:
        raise ImportRefused(f"method {method} needs a drafter, and the source names none")
    length = _length(config, method, findings)
    restarts, fixed = method in admission.relaunched, method in admission.static
    if length is not None:
        wanted["numSpeculativeTokens"] = length
    own_config = _further_keys(config, findings)
    adaptive = _verifies_adaptively(config, method, findings)
    if adaptive:
        wanted["verification"] = str(Verification.ADAPTIVE)
    elif not restarts and not fixed:
        wanted |= _ks(config, method, length, findings)
    if own_config:
        wanted["config"] = own_config
    unknown_length = length is None and traits.tunability is Tunability.LIVE
    static = traits.tunability is Tunability.STATIC or unknown_length or adaptive
    comments = ["This is the speculative configuration of the source."]
    if static or restarts or fixed or target.data > 1:
        wanted["tuning"] = {"mode": "Off"}
        if adaptive:
            comments.append(
                "The tuner is off, as in the source. With vLLM 0.32 or newer, mode: Auto tunes K above "
                "adaptive verification."
            )
        elif unknown_length:
            comments.append(
                "The tuner is off: to tune, set numSpeculativeTokens to the drafter's block_size."
            )
        elif restarts:
            comments.append(
                f"The tuner is off. {target.kind} changes K of this method by a restart only: "
                "tuning.actuation: Rollout."
            )
        elif static or fixed:
            comments.append("The engine cannot change K with this method, so the tuner is off.")
        else:
            comments.append(
                "With data-parallel ranks K changes by a rolling restart only: tuning.actuation: Rollout."
            )
    else:
        comments.append("mode: Observe reports what the tuner would do, and changes nothing.")
        wanted["tuning"] = {"mode": "Auto"}
    return Speculating(wanted, tuple(comments), mount)


def _verifies_adaptively(config: Json, method: Method, findings: Findings) -> bool:
    """Whether the source has vLLM verify likely drafts only; `spec.speculation.verification` is the field."""
    if config.get(ADAPTIVE_VERIFICATION) is not True:
        return False
    if method not in ADAPTIVE_SINCE:
        findings.dropped(
            f"--speculative-config {ADAPTIVE_VERIFICATION}", f"vLLM does not use it with method {method}"
        )
        return False
    if config.get(TABLE) is not None:
        findings.dropped(
            f"--speculative-config {TABLE}",
            "with verification: Adaptive and tuning.mode: Off an engine keeps one K; to keep the rows, write "
            "them into spec.speculation.schedule and tune, or set verification: Fixed",
        )
    return True


def _method(config: Json) -> Method:
    named, model = config.get("method"), config.get("model")
    parallel = config.get("parallel_drafting") is True
    if isinstance(named, str) and named != "auto":
        method = _named(named)
    elif model in ("ngram", "[ngram]"):
        method = Method.NGRAM
    else:
        method = method_of_drafter(str(model).rsplit("/", 1)[-1])
    if parallel:
        return Method.PARD if method is Method.DRAFT_MODEL else Method.P_EAGLE
    return method


def _named(name: str) -> Method:
    method = method_named(name)
    if method is None:
        why = without_value(name) or f"Outrider does not know the method {name}"
        raise ImportRefused(f"{why}; choose one of docs/reference/methods.md")
    return method


def _drafter(config: Json, uri: str, revision: str | None, findings: Findings) -> Json:
    drafter: Json = {"uri": uri}
    named = config.get("revision", revision)
    if isinstance(named, str):
        if uri.startswith(("hf://", "s3://")):
            drafter["revision"] = named
        else:
            findings.dropped("--speculative-config revision", "only hf:// and s3:// drafters have revisions")
    if config.get("draft_tensor_parallel_size") is not None:
        findings.check(
            "--speculative-config draft_tensor_parallel_size",
            "the drafter spreads over the GPUs of its target; drafter.tensorParallelSize sets another size",
        )
    return drafter


def _length(config: Json, method: Method, findings: Findings) -> int | None:
    given = config.get("num_speculative_tokens")
    length, unknown = whole(given), without_value(given)
    if length is None:
        if method is Method.SUFFIX or (method is Method.DSPARK and config.get("model") is not None):
            return None
        if TRAITS[method].kind is Kind.BLOCK:
            needs = f"method {method} needs num_speculative_tokens, the block length of its head"
            raise ImportRefused(needs if unknown is None else f"{needs}, and {unknown}")
        why = unknown or "the source does not set it, and vLLM reads it from the drafter"
        findings.check("numSpeculativeTokens", f"{why}; Outrider wrote {FIRST_K}")
        return FIRST_K
    if not 1 <= length <= MAX_K:
        findings.check("numSpeculativeTokens", f"the source has {length}, and Outrider takes 1 to {MAX_K}")
        return min(max(length, 1), MAX_K)
    return length


def _ks(config: Json, method: Method, length: int | None, findings: Findings) -> Json:
    """The static schedule: the one of the source, else its one K, with which its engines run today."""
    if length is None or TRAITS[method].tunability is not Tunability.LIVE:
        return {}
    rows = list(_rows(config.get(TABLE)))
    if rows and max(k for _, k in rows) <= length:
        ks = sorted({0, length, *(k for _, k in rows)})
        schedule: list[JsonValue] = [
            {"maxBatchSize": edge, "numSpeculativeTokens": k} for edge, k in rows[:-1]
        ]
        schedule.append({"numSpeculativeTokens": rows[-1][1]})
        if len(ks) <= _CANDIDATES and len(schedule) <= 16:
            return {"candidates": list(ks), "schedule": schedule}
    if config.get(TABLE) is not None:
        findings.dropped(
            f"--speculative-config {TABLE}",
            "spec.speculation.schedule has no row for some of it; write the rows there",
        )
    return {"schedule": [{"numSpeculativeTokens": length}]}


def _rows(table: JsonValue) -> Iterator[tuple[int, int]]:
    """Largest batch size and K of each row, of vLLM's list of (first, last, K)."""
    if isinstance(table, str):
        try:
            table = json.loads(table)
        except (ValueError, RecursionError):
            return
    for row in table if isinstance(table, list) else []:
        numbers = [whole(each) for each in row] if isinstance(row, list) and len(row) == 3 else [None]
        if any(number is None for number in numbers):
            return
        yield int(numbers[1] or 0), int(numbers[2] or 0)


_NO_SUCH_KEY = (
    f"vLLM {version_text(OLDEST_VERSION)} to {version_text(NEWEST_VERSION)} has no such key, and ends where "
    "it gets one; leave it out"
)


def _further_keys(config: Json, findings: Findings) -> Json:
    kept: Json = {}
    for key, value in config.items():
        if key in OWNED_KEYS or value is None:
            continue
        if key.partition(".")[0] not in KNOWN_KEYS:
            findings.dropped(f"--{SPECULATIVE_FLAG} {key}", _NO_SUCH_KEY)
            continue
        try:
            _CONFIG.validate_python({key: value})
        except ValidationError as error:
            findings.dropped(f"--speculative-config {key}", validation_message(error, {key: value}))
        else:
            kept[key] = value
    return kept
