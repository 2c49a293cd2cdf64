"""The prose linter: Vale on pages, and on the texts inside of code."""
