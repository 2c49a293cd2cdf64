"""What a release of SGLang cannot serve, and what a launch of it does otherwise than asked."""

from __future__ import annotations

from outrider.api.spec import Spec
from outrider.runtimes.flag_values import own_value
from outrider.runtimes.resources import too_few_gpus, uses_gpu
from outrider.runtimes.sglang.flags import FLAGS
from outrider_protocol.methods import Method
from outrider_protocol.sglang_releases import RELEASES, parse_release

_CONTROLLED = {
    "tokenizer-worker-num": "which starts HTTP workers without plugins",
    "enable-http2": "whose HTTP server loads no plugins",
}
"""Flag -> why the plugin has no control API with it. Source: ``entrypoints/http_server.py``."""


def unsupported_reason(spec: Spec) -> str | None:
    """Why a release or a launch cannot be served, with a remedy; None when it can."""
    refusals = (_device(spec), _ranks(spec), _uncontrolled(spec), _flags(spec))
    return _release(spec.engine.version) or next((why for why in refusals if why is not None), None)


def advice(spec: Spec) -> tuple[str, ...]:
    """What differs from what the spec may suggest, and unknown flags."""
    flags = (FLAGS.advice(name, spec.engine.version) for name in spec.engine.args)
    found = [too_few_gpus(spec), *flags]
    if spec.rolls_out and spec.live:
        found.append(
            "engine.runtime SGLang without Outrider's plugin reports the mean accepted length of all "
            "positions, so the tuner learns no acceptance by position"
        )
    return tuple(text for text in found if text is not None)


def _release(version: str) -> str | None:
    oldest, newest = RELEASES[0], RELEASES[-1]
    if parse_release(version) < parse_release(oldest):
        return f"SGLang {version} is not supported; set spec.engine.version to {oldest} or newer"
    if parse_release(version) > parse_release(newest):
        remedy = f"set spec.engine.version to {newest} or older"
        return f"SGLang {version} was not checked with Outrider's plugin; {remedy}"
    return None


def _device(spec: Spec) -> str | None:
    method = spec.speculation.method
    if method not in (Method.DFLASH, Method.DSPARK) or uses_gpu(spec):
        return None
    return f"SGLang has method {method} on GPUs only, and spec.resources has none; request one"


def _ranks(spec: Spec) -> str | None:
    """Since 0.5.23 a number, and no switch alone, asks for attention data parallelism."""
    for flag in ("attn-dp-size", "attention-data-parallel-size"):
        size = own_value(spec.engine.args, flag)
        if size is not None and str(size) != "1" and spec.live and not spec.one_k:
            return (
                f"spec.engine.args.{flag}: SGLang keeps one K with attention data parallelism. Leave the "
                'flag out, or write tuning.mode: "Off" and one value in speculation.candidates'
            )
    return None


def _uncontrolled(spec: Spec) -> str | None:
    if spec.rolls_out:
        return None
    for name in spec.engine.args:
        why = _CONTROLLED.get(FLAGS.full_name(name))
        if why is not None:
            return (
                f"spec.engine.args.{name}: Outrider's plugin needs SGLang's own HTTP server, and not this "
                f"flag, {why}; leave it out, or set spec.speculation.tuning.actuation: Rollout"
            )
    return None


def _flags(spec: Spec) -> str | None:
    path = next((name for name in spec.engine.args if "." in name), None)
    if path is None:
        return None
    return f"spec.engine.args.{path}: SGLang has no flags with a dot; write the whole value as JSON"
