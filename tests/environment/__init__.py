"""The local environment: everything that the demo and the tests need, built from a bare machine."""
