"""The version contract: what the plugin and the operator stand on in vLLM, checked in vLLM's source.

Nothing of vLLM is imported, so no GPU and no installation is needed.
``make contract`` checks every supported version.
"""
