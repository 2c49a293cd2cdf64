"""The version contract: what the plugin and the operator stand on in vLLM, checked in vLLM's source.

Nothing of vLLM is imported, so no GPU and no installation is needed.
``python -m engine_image.contract --write engine_image/contract/result.json`` checks every supported version.
"""
