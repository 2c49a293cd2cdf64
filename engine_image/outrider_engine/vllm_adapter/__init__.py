"""The inner names of vLLM, one module per seam. Written against 0.32.0 and its V1 model runner.

A test holds that no other room reads an object of vLLM, and that the version contract covers every name here.
"""
