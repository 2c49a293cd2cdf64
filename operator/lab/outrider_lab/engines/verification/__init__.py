"""vLLM's adaptive verification in simulated engines: it verifies the drafts that pay for their time.

`setting` names the parameters, and `confidence` models the drafter. `estimator`, `costs` and `trim` are
vLLM's rule, `verifier` is the rule of one engine, and `batches` applies it to the engine of events.
Source: vLLM 0.32.0, vllm/v1/worker/gpu/spec_decode, adaptive_verification.py and acceptance_estimator.py.
"""
