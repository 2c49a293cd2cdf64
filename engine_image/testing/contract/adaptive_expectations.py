"""What the counts of trimmed drafts stand on in vLLM: one line each, with the place that uses it.

Source: vLLM 0.28 to 0.33. Releases before 0.28 have no adaptive verification.
"""

from __future__ import annotations

from engine_image.testing.contract.files import (
    CORE,
    RUNNER_OUTPUTS,
    SPECULATIVE,
)
from engine_image.testing.contract.forms import Defines, Expectation, Holds, Says, of

ADAPTIVE_VERIFICATION = "vllm/v1/worker/gpu/spec_decode/adaptive_verification.py"
OUTPUT_COPIES = "vllm/v1/worker/gpu/async_utils.py"
SAMPLER_OUTPUT = "vllm/v1/worker/gpu/sample/output.py"
INPUTS_OF_V2 = "vllm/v1/worker/gpu/input_batch.py"
V2_RUNNER = "vllm/v1/worker/gpu/model_runner.py"

SINCE = (0, 28)

_COPIED_OUTPUT = """async_output = AsyncOutput(
    model_runner_output=model_runner_output, sampler_output=sampler_output,
    num_sampled_tokens=num_sampled, main_stream=self.main_stream, copy_stream=self.output_copy_stream,
    check_ep_fault=self.check_ep_fault, {last})"""

OF_ADAPTIVE_VERIFICATION: tuple[Expectation, ...] = (
    *of(
        "vllm_adapter/adaptive_verification.py",
        Holds(SPECULATIVE, "SpeculativeConfig", ("enable_adaptive_verification",)),
        Defines(
            OUTPUT_COPIES,
            "AsyncOutput.__init__",
            takes=(
                *("self", "model_runner_output", "sampler_output", "num_sampled_tokens"),
                *("main_stream", "copy_stream"),
            ),
        ),
        Defines(OUTPUT_COPIES, "AsyncOutput"),
        Holds(OUTPUT_COPIES, "AsyncOutput", ("num_sampled_tokens_np", "get_output")),
        Defines(OUTPUT_COPIES, "async_copy_to_np", takes=("x",)),
        Defines(OUTPUT_COPIES, "stream", takes=("to_stream", "from_stream")),
        # The plugin's copy is on the same stream, and before this event.
        Says(OUTPUT_COPIES, "AsyncOutput.__init__", "self.copy_event.record(copy_stream)"),
        Says(OUTPUT_COPIES, "AsyncOutput.get_output", "self.copy_event.synchronize()"),
        Says(OUTPUT_COPIES, "AsyncOutput.get_output", "return self.model_runner_output"),
        Holds(SAMPLER_OUTPUT, "SamplerOutput", ("num_rejected",)),
        # Logits are those of the trimmed step, so rejected drafts are verified ones.
        Says(INPUTS_OF_V2, "_get_num_sampled_and_rejected_kernel", "num_rejected = num_logits - num_sampled"),
        Says(
            V2_RUNNER,
            "GPUModelRunner.prepare_inputs",
            "adaptive_verification.reallocate_drafts(req_ids, idx_mapping)",
        ),
        since=SINCE,
    ),
    *of(
        "vllm_adapter/adaptive_verification.py",
        Says(
            V2_RUNNER,
            "GPUModelRunner.sample_tokens",
            _COPIED_OUTPUT.format(last="routed_experts=routed_experts"),
        ),
        since=SINCE,
        until=(0, 31),
    ),
    *of(
        "vllm_adapter/adaptive_verification.py",
        Says(
            V2_RUNNER,
            "GPUModelRunner.sample_tokens",
            _COPIED_OUTPUT.format(last="pending_aux_output=pending_aux_output"),
        ),
        since=(0, 31),
    ),
    *of(
        "vllm_adapter/scheduler.py",
        Holds(RUNNER_OUTPUTS, "ModelRunnerOutput", ("req_ids", "req_id_to_index")),
        since=SINCE,
    ),
    *of(
        "vllm_adapter/engine_core.py",
        Says(
            CORE,
            "EngineCore.step_with_batch_queue",
            "self.scheduler.update_from_output(scheduler_output, model_output)",
        ),
    ),
    # A K of the schedule bounds what can be verified, and K=0 leaves nothing to choose.
    *of(
        "docs/decisions",
        Says(
            ADAPTIVE_VERIFICATION,
            "AdaptiveVerificationManager.get_num_tokens",
            "steps[None, :] < scheduled_drafts[:, None]",
        ),
        since=SINCE,
    ),
    *of(
        "docs/decisions",
        Says(
            V2_RUNNER,
            "GPUModelRunner.prepare_inputs",
            "self.adaptive_verification if draft_tokens else None",
        ),
        since=(0, 31),
    ),
)
