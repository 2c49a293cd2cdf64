"""A replacement of IPython, which SGLang imports for notebooks."""  # noqa: N999  its name
